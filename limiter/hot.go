package limiter

// hotModes are the words used in JSON, SQL and YAML.
var hotModes = [...]string{HotExact: "exact", HotLeased: "leased", HotSharded: "sharded"}

// String returns the word used in JSON, SQL and YAML.
func (m HotMode) String() string { return hotModes[m] }

// MarshalText implements encoding.TextMarshaler.
func (m HotMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. An unknown word is HotExact.
func (m *HotMode) UnmarshalText(text []byte) error {
	*m = HotExact
	for mode, word := range hotModes {
		if word == string(text) {
			*m = HotMode(mode)
		}
	}
	return nil
}

// Heat says how busy a bucket is.
type Heat struct {
	// Rate is the present number of takes per second.
	Rate int64 `json:"rate"`
	// Hot: the rate reached the one from which a key is hot, and has not fallen below half of it
	// since.
	Hot bool `json:"hot,omitempty"`
	// Since is when the key became hot, in ms since the epoch on the node's clock, 0 if it is not
	// hot.
	Since int64 `json:"since,omitempty"`
	// State is how the key is served now: HotExact until it is hot, then as its
	// rule allows.
	State HotMode `json:"state"`
}

// HotKey is one of a node's busiest buckets.
type HotKey struct {
	Key Key
	Heat
}
