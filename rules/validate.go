package rules

import (
	"errors"
	"fmt"
	"regexp"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/route"
)

// Bounds of a rule's text.
const (
	// MaxName is the longest name, in bytes.
	MaxName = 63
	// MaxDescription is the longest description, in bytes.
	MaxDescription = 1024
)

const defaultAlgorithm = "sliding_window_counter"

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Validate reports every problem of a normalised rule at once, each under the field's JSON name
// with what is allowed. The error is a *ValidationError; nil means that the rule can be stored and
// compiled.
func Validate(r *Rule) error {
	_, err := validate(r)
	return err
}

// parts holds the parsed values that Compile keeps.
type parts struct {
	limit limiter.Limit
	facts []fact
	route *route.Pattern
	host  string // as parseHostPattern returns it, "" for none
	policy
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

func validate(r *Rule) (parts, error) {
	var ps problems
	var p parts
	if !namePattern.MatchString(r.Name) {
		ps.add("name", "must be %s", NameHelp)
	}
	ps.unknown(r.Unknown)
	p.validateMatchers(r, &ps)
	l, err := r.LimiterLimit()
	var ve *ValidationError
	if errors.As(err, &ve) {
		ps = append(ps, ve.Fields...)
	}
	p.limit = l
	p.policy = validatePolicy(r, l, &ps)
	bounds(ruleFields, r, "", &ps)
	if len(ps) > 0 {
		inOrder(ruleFields, ps)
		return parts{}, &ValidationError{Fields: ps}
	}
	return p, nil
}

// validateMatchers checks the fields that decide whether the rule applies.
func (p *parts) validateMatchers(r *Rule, ps *problems) {
	if r.Descriptor != nil {
		validateDescriptor(r, ps)
		return
	}
	validateOrdinary(r, ps)
	facts, err := parseScope(r.Scope)
	if err != nil {
		ps.add("scope", "%s", err)
	}
	p.facts = facts
	if r.Route != nil {
		pattern, err := route.Parse(*r.Route)
		if err != nil {
			ps.add("route", "%s", err)
		}
		p.route = &pattern
	}
	if r.Method != nil && !route.IsMethod(*r.Method) {
		ps.add("method", "must be an HTTP method in upper case, such as POST, of at most %d characters", route.MaxMethod)
	}
	if r.Host != nil {
		if p.host, err = parseHostPattern(*r.Host); err != nil {
			ps.add("host", "%s", err)
		}
	}
	if r.WeightField != nil && !chars.IsName(*r.WeightField) {
		ps.add("weight_field", "must be 1 to %d letters, digits, _, . or -", chars.MaxName)
	}
}
