package rules

import (
	"errors"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/route"
	"sluice/rules/scope"
	"sluice/rules/when"
)

// MaxName is the longest name, in bytes.
const MaxName = 63

const defaultAlgorithm = "sliding_window_counter"

// Validate reports every problem of a normalised rule at once, each under the field's JSON name
// with what is allowed. The error is a *field.ValidationError; nil means that the rule can be stored and
// compiled.
func Validate(r *Rule) error {
	_, err := Parse(r)
	return err
}

// Parsed holds the parsed values of a valid rule.
type Parsed struct {
	Limits
	// Facts are the facts of the scope, in the order of keys.
	Facts []scope.Fact
	Route *route.Pattern // nil for every route
	Host  string         // as parseHostPattern returns it, "" for every host
	// Candidate is the candidate's limit, nil for none.
	Candidate *limiter.Limit
	When      *when.Condition // nil for none
	// Message is the text for denied clients, nil for the usual one.
	Message *Message
}

// Parse is Validate with the parsed values of the rule.
func Parse(r *Rule) (Parsed, error) {
	var ps field.Problems
	var p Parsed
	if !field.ValidName(r.Name) {
		ps.Add("name", "must be %s", field.NameHelp)
	}
	ps.Unknown(r.Unknown)
	p.validateMatchers(r, &ps)
	l, err := r.LimiterLimit()
	var ve *field.ValidationError
	if errors.As(err, &ve) {
		ps = append(ps, ve.Fields...)
	}
	p.validatePolicy(r, l, &ps)
	field.Bounds(ruleFields, r, "", &ps)
	if len(ps) > 0 {
		field.Sort(ruleFields, ps)
		return Parsed{}, &field.ValidationError{Fields: ps}
	}
	return p, nil
}

// validateMatchers checks the fields that decide whether the rule applies.
func (p *Parsed) validateMatchers(r *Rule, ps *field.Problems) {
	if r.Descriptor != nil {
		validateDescriptor(r, ps)
		return
	}
	validateOrdinary(r, ps)
	facts, err := scope.Parse(r.Scope)
	if err != nil {
		ps.Add("scope", "%s", err)
	}
	p.Facts = facts
	if r.Route != nil {
		pattern, err := route.Parse(*r.Route)
		if err != nil {
			ps.Add("route", "%s", err)
		}
		p.Route = &pattern
	}
	if r.Method != nil && !route.IsMethod(*r.Method) {
		ps.Add("method", "must be an HTTP method in upper case, such as POST, of at most %d characters", route.MaxMethod)
	}
	if r.Host != nil {
		if p.Host, err = host.ParsePattern(*r.Host); err != nil {
			ps.Add("host", "%s", err)
		}
	}
	if r.WeightField != nil && !chars.IsName(*r.WeightField) {
		ps.Add("weight_field", "must be 1 to %d letters, digits, _, . or -", chars.MaxName)
	}
}
