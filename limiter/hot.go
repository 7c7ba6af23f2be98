package limiter

// String gives the word used in JSON, SQL and YAML.
func (m HotMode) String() string {
	switch m {
	case HotLeased:
		return "leased"
	case HotSharded:
		return "sharded"
	}
	return "exact"
}

// HotKey is a copy of the figures of one of a node's busiest buckets, for people.
type HotKey struct {
	Key Key
	// Rate is the number of takes per second on this node lately.
	Rate int64
	// Hot: the rate passed the one from which a key is hot, and has not yet fallen
	// to half of it.
	Hot bool
	// State is how the key is served now: HotExact until it is hot, then as its
	// rule allows.
	State HotMode
	// Since is when the key became hot, ms since the epoch on this node's clock; 0
	// if it is not hot.
	Since int64
}
