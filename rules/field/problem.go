package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Problem describes a problem of one field, by its JSON name (such as "window_ms", or
// "rules[3].scope" in an import).
type Problem struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ValidationError holds all field errors of one input.
type ValidationError struct {
	Fields []Problem
}

func (e *ValidationError) Error() string {
	msgs := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		msgs[i] = f.Field + " " + f.Message
	}
	return "invalid: " + strings.Join(msgs, "; ")
}

// Problems collects field errors.
type Problems []Problem

// Add adds a problem of a field, with a message as of fmt.Sprintf.
func (ps *Problems) Add(field, format string, args ...any) {
	*ps = append(*ps, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Unknown refuses a stored member that this version does not know: what it says would not be done, and an edit would
// drop it.
func (ps *Problems) Unknown(member string) {
	if member != "" {
		ps.Add("policies", "have the member %q in the rules database, which this version does not know", member)
	}
}

// Between requires an integer in a range.
func (ps *Problems) Between(field string, v *int64, least, most int64) {
	if v != nil && (*v < least || *v > most) {
		ps.Add(field, "must be between %d and %d", least, most)
	}
}

// Belongs refuses a field that is set without its owner, and requires it if its owner needs it.
func (ps *Problems) Belongs(field string, given, wanted, required bool, owner string) {
	switch {
	case given && !wanted:
		ps.Add(field, "applies only with %s; leave it out", owner)
	case !given && wanted && required:
		ps.Add(field, "is required with %s", owner)
	}
}

// Under adds problems below a path.
func (ps *Problems) Under(path string, fields []Problem) {
	for _, f := range fields {
		ps.Add(path+"."+f.Field, "%s", f.Message)
	}
}

// Path names an element of a list in a field error.
func Path(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// namePattern is the form of the names of rules, pools and profiles. NameHelp describes it.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NameHelp says what a valid name is.
const NameHelp = "1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"

// ValidName reports whether name is a valid name of a rule, a pool or a direct limit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// The beginnings of the names of missing attributes and fields.
const (
	AttributePrefix = "attr:"
	FieldPrefix     = "field:"
)

// MaxDescription is the longest description, in bytes.
const MaxDescription = 1024

// JSONText formats a value as JSON on one line, without HTML escapes.
func JSONText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ValueOf returns what a pointer points to, the zero value for nil.
func ValueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
