// Package audit has the entries of the audit log: who changed what, and when. The rules
// database writes them in the transaction of the change.
//
// An example: edda raises the limit of the rule charges-per-user from 100
// to 120: the entry has the actor user/edda, the action update, the subject
// rule 7 charges-per-user, and details {"version":3,"changes":[{"field":"limit",
// "old":100,"new":120}]}. The query {Actor: "edda", Since: noon} finds it.
package audit

import (
	"encoding/json"
	"time"

	"sluice/rules"
	"sluice/rules/field"
)

// Entry says who changed what, and when.
type Entry struct {
	// ID is larger than that of every earlier entry and is never reused.
	ID     int64       `json:"id"`
	At     time.Time   `json:"at"`
	Actor  rules.Actor `json:"actor"`
	Action string      `json:"action"` // one of Actions
	// SubjectKind is one of Subjects; SubjectName is its name at the time.
	SubjectKind string `json:"subject_kind"`
	SubjectID   int64  `json:"subject_id"`
	SubjectName string `json:"subject_name"`
	// Details is a JSON object: version and changes for a rule or pool, scopes and
	// expires_at for a token, role for an account.
	Details json.RawMessage `json:"details"`
}

// Query selects entries. The zero value selects the newest of all.
type Query struct {
	SubjectKind string // one of Subjects; empty for all
	SubjectID   int64  // 0 for all
	// Actor and Subject are names, or the beginnings of names; empty for all.
	Actor, Subject string
	Action         string // one of Actions; empty for all
	// Since and Until bound the time, Until excluded; zero for no bound.
	Since, Until time.Time
	Limit        int   // 1 to 500; 0 means 50
	BeforeID     int64 // entries with a smaller id; 0 for the newest
}

// Actions are what entries can say was done. Readers must expect others.
func Actions() []string {
	return []string{
		"create", "update", "delete", "rollback", "promote", "rotate", "import", "revoke", "reset", "drop",
		"disable", "enable",
		"sign_out", "override_create", "override_update", "override_delete", "override_import",
	}
}

// Subjects are what entries can be about. Readers must expect others.
func Subjects() []string { return []string{"rule", "pool", "profile", "webhook", "token", "user"} }

// Changes are the fields that an entry's details say were changed, nil where
// they say nothing of the kind.
func (e *Entry) Changes() []field.Change {
	return e.details().Changes
}

// Reason is why it was done, "" if nobody said.
func (e *Entry) Reason() string { return e.details().Reason }

// known is what details of every kind call alike.
type known struct {
	Changes []field.Change `json:"changes"`
	Reason  string         `json:"reason"`
}

func (e *Entry) details() (d known) {
	if json.Unmarshal(e.Details, &d) != nil {
		return known{}
	}
	return d
}
