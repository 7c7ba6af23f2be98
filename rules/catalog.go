package rules

import "time"

// Actor is who made a change. No change is written without one.
type Actor struct {
	// Kind is token, user, cli or system.
	Kind string `json:"kind"`
	// Name is the token's or person's name, or what ran ("import", "demo").
	Name string `json:"name"`
}

// Query selects rules. Zero values select everything.
type Query struct {
	Text     string // part of name, description or route, any case
	Scope    string
	Route    string
	Method   string
	Mode     string
	Active   *bool
	PageSize int   // 1 to 500; 0 means 50
	AfterID  int64 // rules with a greater id, in order of id
}

// Page is one page of rules in order of id.
type Page struct {
	Rules []Rule
	// More: there are rules after the last one.
	More bool
}

// Revision is one version of a rule in its history, newest first in listings.
type Revision struct {
	Version int64     `json:"version"`
	Action  string    `json:"action"` // create, update, delete, rollback, promote, import
	Actor   Actor     `json:"actor"`
	At      time.Time `json:"at"`
	// Rule is the rule as it was after the change (before it, for delete).
	Rule Rule `json:"rule"`
	// Changes are the fields that differ from the version before.
	Changes []Change `json:"changes"`
}

// Change is one field that differs. Old and New are JSON values.
type Change struct {
	Field string `json:"field"`
	Old   any    `json:"old"`
	New   any    `json:"new"`
}
