package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/host"
)

// Actor is the author of a change. Every change has one.
type Actor struct {
	// Kind is token, certificate (a client's), user, cli, system, or sso for changes by single sign-on.
	Kind string `json:"kind"`
	// Name is the name of the token or person, the program that ran ("import", "demo"), or the
	// provider's address.
	Name string `json:"name"`
	// Reason is the actor's reason for the change, "" if none was given. It belongs to one change,
	// so the actor of a Revision has none. See CheckReason.
	Reason string `json:"-"`
	// Undoes is the ID of the audit entry of the change that this change reverts, 0 for none. Like Reason, it belongs to
	// one change.
	Undoes int64 `json:"-"`
}

// CheckReason validates the reason for a change: one line of printable text. The error is a
// *field.ValidationError of the field reason.
func CheckReason(reason string) error {
	message := ""
	switch {
	case len(reason) > MaxReason:
		message = fmt.Sprintf("must not be longer than %d bytes", MaxReason)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, chars.Unsafe):
		message = "must be one line of printable text"
	default:
		return nil
	}
	return &field.ValidationError{Fields: []field.Problem{{Field: "reason", Message: message}}}
}

// Query selects rules. Zero values select everything.
type Query struct {
	// Text has words, each of which is part of the name, description, route or host, in any order and case. See Words.
	Text string
	// Equal selects by field values, by name, including the names of Filters; "" selects everything.
	Equal  map[string]string
	Active *bool
	// IDs selects only these rules, nil any; Except selects all but these.
	IDs, Except []int64
	PageSize    int   // 1 to 500; 0 means 50
	AfterID     int64 // rules with a greater id, in order of id
}

// maxWords is the largest number of words of a Query.
const maxWords = 8

// Words are the words of Text, at most eight: the last one is the rest, with its spaces.
func (q *Query) Words() []string {
	words := strings.Fields(q.Text)
	if len(words) > maxWords {
		words = append(words[:maxWords-1:maxWords-1], strings.Join(words[maxWords-1:], " "))
	}
	return words
}

// Selects reports whether a rule matches q, regardless of its page.
func (q *Query) Selects(r *Rule) bool {
	if q.Active != nil && r.IsActive != *q.Active {
		return false
	}
	if q.IDs != nil && !slices.Contains(q.IDs, r.ID) || slices.Contains(q.Except, r.ID) {
		return false
	}
	for name, value := range q.Equal {
		switch name {
		case "method":
			value = strings.ToUpper(value)
		case "host":
			value = host.Normal(value)
		}
		if name == FilterDomain {
			if value != "" && (r.Descriptor == nil || r.Descriptor.Domain != value) {
				return false
			}
			continue
		}
		if f := FieldNamed(name); value != "" && (f == nil || f.Value(r) != value) {
			return false
		}
	}
	return q.hasWords(r)
}

func (q *Query) hasWords(r *Rule) bool {
	words := q.Words()
	if words == nil {
		return true
	}
	text := r.Name + "\n" + r.Description
	if r.Route != nil {
		text += "\n" + *r.Route
	}
	text = strings.ToLower(text)
	for _, w := range words {
		if !strings.Contains(text, strings.ToLower(w)) &&
			(r.Host == nil || !strings.Contains(*r.Host, strings.ToLower(host.Normal(w)))) {
			return false
		}
	}
	return true
}

// Page is one page of rules in order of id.
type Page struct {
	Rules []Rule
	// More reports that there are rules after the last one.
	More bool
}

// Revision is one version of a rule in its history. Listings are newest first.
type Revision struct {
	Version int64     `json:"version"`
	Action  string    `json:"action"` // create, update, delete, rollback, promote, import
	Actor   Actor     `json:"actor"`
	Reason  string    `json:"reason"` // see Actor
	At      time.Time `json:"at"`
	// Rule is the rule after the change, or before it for a deletion.
	Rule Rule `json:"rule"`
	// Changes holds the fields that differ from the previous version.
	Changes []field.Change `json:"changes"`
}
