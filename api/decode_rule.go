package api

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// input collects the errors of an object that is to be stored.
type input struct{ errs []field.Problem }

func (in *input) wrong(member, format string, args ...any) {
	in.errs = append(in.errs, field.Problem{Field: member, Message: fmt.Sprintf(format, args...)})
}

// requireID checks that an id in the body is the one in the path; 0 allows any.
func (in *input) requireID(field string, v *tree.Value, want int64) {
	if m := v.Member(field); m != nil && want != 0 && m.Text != strconv.FormatInt(want, 10) {
		in.wrong(field, "must be %d, as in the path, or omitted", want)
	}
}

// given are the read-only members of every stored object. A whole object may contain
// them; a patch must not.
var given = []string{"version", "created_at", "updated_at"}

// decodeRule reads a whole rule, for POST and PUT. id is the id of the rule, or 0 for a new one. The result is
// normalised and valid.
func decodeRule(body []byte, id int64) (rules.Rule, error) {
	v, err := parseJSON(body)
	if err != nil {
		return rules.Rule{}, err
	}
	r := rules.Rule{IsActive: true}
	var in input
	if err := decodeMembers(&in, v, &r, rules.Fields(), "id"); err != nil {
		return r, err
	}
	var missing input
	requireMembers(&missing, v, &r, rules.Fields())
	if v.Member("window_ms") == nil && !hasCalendar(v) && (!r.Unlimited || r.IsMeter()) {
		missing.wrong("window_ms", "is required")
	}
	in.errs = append(missing.errs, in.errs...)
	in.requireID("id", v, id)
	r.ID = id
	r.Normalize()
	return r, in.addValidation(rules.Validate(&r))
}

// hasCalendar reports whether the rule has a calendar, which replaces window_ms.
func hasCalendar(v *tree.Value) bool {
	c := v.Member("calendar")
	return c != nil && c.Kind != tree.Null
}

// decodePatch applies a JSON merge patch (RFC 7396) to a rule: null resets a member to
// its default. Composite members are replaced as a whole, because their parts depend on
// each other.
func decodePatch(body []byte, r *rules.Rule) error {
	v, err := parseJSON(body)
	if err != nil {
		return err
	}
	var in input
	for i := range v.Members {
		if name := v.Members[i].Name; name == "id" || slices.Contains(given, name) {
			in.wrong(name, "cannot be changed")
		}
	}
	if err := decodeMembers(&in, v, r, rules.Fields(), "id"); err != nil {
		return err
	}
	r.Normalize()
	return in.addValidation(rules.Validate(r))
}

// requireMembers names the required members that are missing in t, which was read from v.
func requireMembers[T any](in *input, v *tree.Value, t *T, fields []field.Field[T]) {
	for i := range fields {
		if f := &fields[i]; v.Member(f.Name) == nil && f.Needed(t) {
			in.wrong(f.Name, "is required")
		}
	}
}

// decodeMembers reads every member into t, except read-only members and ids. An unknown
// member makes the body malformed. An empty member that others of t replace is read last.
func decodeMembers[T any](in *input, v *tree.Value, t *T, fields []field.Field[T], ids ...string) error {
	var last []*tree.Member
	for i := range v.Members {
		m := &v.Members[i]
		f := field.Named(fields, m.Name)
		if f == nil {
			if !slices.Contains(given, m.Name) && !slices.Contains(ids, m.Name) {
				return unknownMember(m.Name, field.Names(fields)...)
			}
			continue
		}
		if f.Waived != nil && (m.Value.Kind == tree.Null || m.Value.Kind == tree.Text && m.Value.Text == "") {
			last = append(last, m)
			continue
		}
		in.decode(f.Decode(t, &m.Value, field.FromRequest))
	}
	for _, m := range last {
		if f := field.Named(fields, m.Name); f.Waived(t) {
			f.Reset(t)
		} else {
			in.decode(f.Decode(t, &m.Value, field.FromRequest))
		}
	}
	return nil
}

// decode adds the problems of a member.
func (in *input) decode(problems []field.LineProblem) {
	for _, p := range problems {
		in.errs = append(in.errs, p.Problem)
	}
}

// unknownMember refuses a member, and names the known one that may have been meant.
func unknownMember(name string, known ...string) error {
	return &malformedError{message: "unknown member " + strconv.Quote(clip(name)) + meant(name, known)}
}

// meant is the end of a message about an unknown name: the known one that may have been meant, "" for none.
func meant(name string, known []string) string {
	if near := field.Nearest(clip(name), known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// addValidation adds the errors of the validation to the errors that were found before, one for each field.
func (in *input) addValidation(err error) error {
	if ve, ok := err.(*field.ValidationError); ok { //nolint:errorlint // validation promises exactly this type
		seen := map[string]bool{}
		for _, f := range in.errs {
			seen[field.TopField(f.Field)] = true
		}
		for _, f := range ve.Fields {
			if !seen[field.TopField(f.Field)] {
				in.errs = append(in.errs, f)
			}
		}
	}
	return in.err()
}

func (in *input) err() error {
	if len(in.errs) > 0 {
		return &field.ValidationError{Fields: in.errs}
	}
	return nil
}
