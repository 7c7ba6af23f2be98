// Package audit defines the entries of the audit log: who changed what, and when. The rules database writes them in the
// transaction of the change.
//
// An example: edda raises the limit of the rule charges-per-user from 100
// to 120: the entry has the actor user/edda, the action update, the subject
// rule 7 charges-per-user, and details {"version":3,"changes":[{"field":"limit",
// "old":100,"new":120}]}. The query {Actor: "edda", Since: noon} finds it.
package audit

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/field"
)

// Entry says who changed what, and when.
type Entry struct {
	// ID is larger than the ID of every earlier entry and is never reused.
	ID     int64       `json:"id"`
	At     time.Time   `json:"at"`
	Actor  rules.Actor `json:"actor"`
	Action string      `json:"action"` // one of Actions
	// SubjectKind is one of Subjects; SubjectName is its name at the time. An edit of many rules is one entry of
	// SubjectBulk; its SubjectID identifies the edit, and its name says how many rules it edited.
	SubjectKind string `json:"subject_kind"`
	SubjectID   int64  `json:"subject_id"`
	SubjectName string `json:"subject_name"`
	// Details is a JSON object: version and changes for a rule or pool, scopes and
	// expires_at for a token, role for an account, an override before (was) and after (is),
	// and the members of Bulk and changes for an edit of many rules.
	Details json.RawMessage `json:"details"`
}

// SubjectBulk is the subject of the edit of many rules.
const SubjectBulk = "bulk"

// Bulk says which rules a bulk edit changed.
type Bulk struct {
	// Rules is the number of edited rules.
	Rules int `json:"rules"`
	// Listed are the first of them, at most 100.
	Listed []BulkRule `json:"listed"`
}

// BulkRule is a rule in a bulk edit, and the version that the edit made.
type BulkRule struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

// Query selects entries. The zero value selects the newest of all. An edit of many rules is an entry about each of
// them: the kind rule, an id and a name of a rule select it, too.
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
		"connect", "disconnect",
		"disable", "enable",
		"sign_out", "override_create", "override_update", "override_delete", "override_import",
	}
}

// Subjects are what entries can be about. Readers must expect others.
func Subjects() []string {
	return []string{"rule", SubjectBulk, "pool", "profile", "webhook", "silence", "token", "user"}
}

// Changes are the fields that an entry's details say were changed, nil where they say nothing of the kind. The key of
// an override is not among them. A bulk edit has the different changes of its rules, at most 20.
func (e *Entry) Changes() []field.Change {
	if o := e.Override(); o.Was != nil || o.Is != nil {
		return o.changes()
	}
	return e.details().Changes
}

// OfOverride reports whether an entry is about overrides of a rule.
func (e *Entry) OfOverride() bool { return strings.HasPrefix(e.Action, "override_") }

// Key returns the key of the override that an entry is about, "" if it is about none or several.
func (e *Entry) Key() string {
	switch o := e.Override(); {
	case o.Is != nil:
		return o.Is.Key
	case o.Was != nil:
		return o.Was.Key
	}
	return ""
}

// Override returns the override that an entry is about before and after. Both are nil if it is about none or several.
func (e *Entry) Override() (o OverrideChange) {
	if !e.OfOverride() || json.Unmarshal(e.Details, &o) != nil {
		return OverrideChange{}
	}
	return o
}

// OverrideChange is an override before and after; nil for one that did not exist.
type OverrideChange struct {
	Was *rules.Override `json:"was"`
	Is  *rules.Override `json:"is"`
}

// changes returns the fields that differ. For a new or deleted override it returns the fields that are set.
func (o *OverrideChange) changes() []field.Change {
	was, is := cmp.Or(o.Was, &rules.Override{}), cmp.Or(o.Is, &rules.Override{})
	out := slices.DeleteFunc(field.Diff(rules.OverrideFields(), was, is), func(c field.Change) bool {
		return c.Field == "key"
	})
	for i := range out {
		if o.Was == nil {
			out[i].Old = nil
		}
		if o.Is == nil {
			out[i].New = nil
		}
	}
	return out
}

// Reason is why it was done, "" if nobody said.
func (e *Entry) Reason() string { return e.details().Reason }

// Version is the version of the rule or object that the change made, 0 if the details have none.
func (e *Entry) Version() int64 { return e.details().Version }

// Undoes is the ID of the entry of the change that this change reverted, 0 for none.
func (e *Entry) Undoes() int64 { return e.details().Undoes }

// Bulk says which rules a bulk edit changed, none for other entries.
func (e *Entry) Bulk() Bulk {
	if e.SubjectKind != SubjectBulk {
		return Bulk{}
	}
	return e.details().Bulk
}

// known contains the members that have the same name in details of every kind.
type known struct {
	Bulk
	Changes []field.Change `json:"changes"`
	Reason  string         `json:"reason"`
	Version int64          `json:"version"`
	Undoes  int64          `json:"undoes"`
}

func (e *Entry) details() (d known) {
	if json.Unmarshal(e.Details, &d) != nil {
		return known{}
	}
	return d
}
