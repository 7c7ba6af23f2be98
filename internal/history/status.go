package history

// Status describes a node. Each node posts its own every second.
type Status struct {
	// ID names the process, Address is where it listens, Version is the version of its build.
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Started and At are ms since the epoch; At is when it was posted.
	Started int64 `json:"started"`
	At      int64 `json:"at"`
	// SetVersion and Rules are the version and size of the set in force, Source is
	// its origin, Confirmed the last time the rules database confirmed it.
	SetVersion int64  `json:"set_version"`
	Rules      int    `json:"rules"`
	Source     string `json:"source"`
	Confirmed  int64  `json:"confirmed"`
	Ready      bool   `json:"ready"`
	// Store is redis or memory.
	Store    string    `json:"store"`
	Breakers []Breaker `json:"breakers,omitempty"`
	// HotKeys is the number of hot keys on the node.
	HotKeys int `json:"hot_keys"`
}

// Breaker is the circuit breaker of one server on a node.
type Breaker struct {
	Server string `json:"server"`
	// State is closed, open or half_open.
	State string `json:"state"`
	// Since is when it entered this state, ms since the epoch.
	Since int64 `json:"since"`
	// Opened is how often it opened, Cause why it opened last.
	Opened int64  `json:"opened"`
	Cause  string `json:"cause,omitempty"`
}
