package fleet

// Status is what a node says of itself. It is posted each second.
type Status struct {
	// ID names the process, Address is where it listens, Version is its build's.
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	// Started and At are ms since the epoch; At is when it was posted.
	Started int64 `json:"started"`
	At      int64 `json:"at"`
	// SetVersion and Rules are the version and size of the set in force, Source
	// where it came from, Confirmed when the rule database last confirmed it.
	SetVersion int64  `json:"set_version"`
	Rules      int    `json:"rules"`
	Source     string `json:"source"`
	Confirmed  int64  `json:"confirmed"`
	Ready      bool   `json:"ready"`
	// Store is redis or memory.
	Store    string    `json:"store"`
	Breakers []Breaker `json:"breakers,omitempty"`
	// HotKeys is how many keys are hot here.
	HotKeys int `json:"hot_keys"`
}

// Breaker is the state of one server's breaker as a node sees it.
type Breaker struct {
	Server string `json:"server"`
	// State is closed, open or half_open.
	State string `json:"state"`
	// Since is when it came into this state, ms since the epoch.
	Since int64 `json:"since"`
	// Opened counts how often it opened, Cause is why it did last.
	Opened int64  `json:"opened"`
	Cause  string `json:"cause,omitempty"`
}
