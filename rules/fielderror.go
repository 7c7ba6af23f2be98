package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// FieldError describes a problem of one field, by its JSON name (such as "window_ms", or
// "rules[3].scope" in an import).
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ValidationError holds all field errors of one input.
type ValidationError struct {
	Fields []FieldError
}

func (e *ValidationError) Error() string {
	msgs := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		msgs[i] = f.Field + " " + f.Message
	}
	return "invalid: " + strings.Join(msgs, "; ")
}

// problems collects field errors.
type problems []FieldError

func (ps *problems) add(field, format string, args ...any) {
	*ps = append(*ps, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// unknown refuses a stored member that this version does not know: what it says would not be done, and an edit would
// drop it.
func (ps *problems) unknown(member string) {
	if member != "" {
		ps.add("policies", "have the member %q in the rules database, which this version does not know", member)
	}
}

// between requires an integer in a range.
func (ps *problems) between(field string, v *int64, least, most int64) {
	if v != nil && (*v < least || *v > most) {
		ps.add(field, "must be between %d and %d", least, most)
	}
}

// belongs refuses a field that is set without its owner, and requires it if its owner needs it.
func (ps *problems) belongs(field string, given, wanted, required bool, owner string) {
	switch {
	case given && !wanted:
		ps.add(field, "applies only with %s; leave it out", owner)
	case !given && wanted && required:
		ps.add(field, "is required with %s", owner)
	}
}

// under adds problems below a path.
func (ps *problems) under(path string, fields []FieldError) {
	for _, f := range fields {
		ps.add(path+"."+f.Field, "%s", f.Message)
	}
}

// path names an element of a list in a field error.
func path(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// NameHelp says what a valid name is.
const NameHelp = "1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"

// ValidName reports whether name is a valid name of a rule, a pool or a direct limit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// The beginnings of the names of missing attributes and fields.
const (
	missingAttribute = "attr:"
	missingField     = "field:"
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

// valueOf returns what a pointer points to, the zero value for nil.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
