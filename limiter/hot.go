package limiter

// String returns the word used in JSON, SQL and YAML.
func (m HotMode) String() string {
	switch m {
	case HotLeased:
		return "leased"
	case HotSharded:
		return "sharded"
	}
	return "exact"
}

// HotKey describes one of a node's busiest buckets, for people.
type HotKey struct {
	Key Key
	// Rate is the current number of takes per second on this node.
	Rate int64
	// Hot: the rate reached the one from which a key is hot, and has not fallen below half of it
	// since.
	Hot bool
	// State is how the key is served now: HotExact until it is hot, then as its
	// rule allows.
	State HotMode
	// Since is when the key became hot, in ms since the epoch on this node's clock, 0 if it is not
	// hot.
	Since int64
}
