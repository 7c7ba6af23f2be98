package rules

import (
	"errors"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/route"
)

// MaxName is the longest name, in bytes.
const MaxName = 63

const defaultAlgorithm = "sliding_window_counter"

// Validate reports every problem of a normalised rule at once, each under the field's JSON name
// with what is allowed. The error is a *ValidationError; nil means that the rule can be stored and
// compiled.
func Validate(r *Rule) error {
	_, err := Parse(r)
	return err
}

// Parsed holds the parsed values of a valid rule.
type Parsed struct {
	Limits
	// Facts are those of the scope, in the order of keys.
	Facts []fact
	Route *route.Pattern // nil for every route
	Host  string         // as parseHostPattern returns it, "" for every host
	// Candidate is the candidate's limit, nil for none.
	Candidate *limiter.Limit
	When      *condition // nil for none
	// Message is the text for denied clients, nil for the usual one.
	Message *Message
}

// Parse is Validate with the parsed values of the rule.
func Parse(r *Rule) (Parsed, error) {
	var ps problems
	var p Parsed
	if !ValidName(r.Name) {
		ps.add("name", "must be %s", NameHelp)
	}
	ps.unknown(r.Unknown)
	p.validateMatchers(r, &ps)
	l, err := r.LimiterLimit()
	var ve *ValidationError
	if errors.As(err, &ve) {
		ps = append(ps, ve.Fields...)
	}
	p.validatePolicy(r, l, &ps)
	bounds(ruleFields, r, "", &ps)
	if len(ps) > 0 {
		inOrder(ruleFields, ps)
		return Parsed{}, &ValidationError{Fields: ps}
	}
	return p, nil
}

// validateMatchers checks the fields that decide whether the rule applies.
func (p *Parsed) validateMatchers(r *Rule, ps *problems) {
	if r.Descriptor != nil {
		validateDescriptor(r, ps)
		return
	}
	validateOrdinary(r, ps)
	facts, err := parseScope(r.Scope)
	if err != nil {
		ps.add("scope", "%s", err)
	}
	p.Facts = facts
	if r.Route != nil {
		pattern, err := route.Parse(*r.Route)
		if err != nil {
			ps.add("route", "%s", err)
		}
		p.Route = &pattern
	}
	if r.Method != nil && !route.IsMethod(*r.Method) {
		ps.add("method", "must be an HTTP method in upper case, such as POST, of at most %d characters", route.MaxMethod)
	}
	if r.Host != nil {
		if p.Host, err = parseHostPattern(*r.Host); err != nil {
			ps.add("host", "%s", err)
		}
	}
	if r.WeightField != nil && !chars.IsName(*r.WeightField) {
		ps.add("weight_field", "must be 1 to %d letters, digits, _, . or -", chars.MaxName)
	}
}
