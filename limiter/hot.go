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

// HotKey is one of a node's busiest buckets, for people. It is a copy; nothing
// of it follows what happens later.
type HotKey struct {
	Key Key
	// Rate is how many takes a second this node was asked about it lately.
	Rate int64
	// Hot: it passed the rate from which a key is called hot, and has not yet
	// fallen to half of it.
	Hot bool
	// State is how it is served now: HotExact until it is hot, then what its
	// rule allows.
	State HotMode
	// Since is when it turned hot, ms since the epoch on this node's clock; 0 if
	// it is not hot.
	Since int64
}
