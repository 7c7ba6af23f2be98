package rules

import (
	"fmt"
	"slices"

	"sluice/limiter"
)

// ExplainOthers is how many rules that do not apply Explain tells about.
const ExplainOthers = 200

// Reason is why a rule applies to a descriptor or not. It is part of the API.
type Reason string

// The reasons, from the one that applies to the one that is furthest from it.
const (
	// ReasonMatched: the rule applies.
	ReasonMatched Reason = "matched"
	// ReasonMissingField: everything fits, but the descriptor lacks the field
	// that weighs the request.
	ReasonMissingField Reason = "missing_field"
	// ReasonMissingFact: route and method fit, but a fact of the scope is absent.
	ReasonMissingFact Reason = "missing_fact"
	// ReasonMethod: the route fits, the method does not.
	ReasonMethod Reason = "method"
	// ReasonRoute: the route does not fit.
	ReasonRoute Reason = "route"
)

var reasonOrder = []Reason{ReasonMatched, ReasonMissingField, ReasonMissingFact, ReasonMethod, ReasonRoute}

// Considered is what Explain says about one rule.
type Considered struct {
	Rule    *Compiled
	Matched bool
	Reason  Reason
	// Sentence says the same to people.
	Sentence string
	// Key, Display and Weight are as in Match; zero unless Matched.
	Key     limiter.Key
	Display string
	Weight  int64
}

// Explain considers every active rule: first those that apply, exactly as Match
// gives them, then up to ExplainOthers of the rest, the nearest misses first
// and by id among equals. It reads all rules, so it is for people and not for
// the path of a check.
func (s *Set) Explain(d *Descriptor, weight int64) []Considered {
	return s.ExplainSome(d, weight, ExplainOthers)
}

// ExplainSome is Explain with a bound of the caller's on the rules that do not
// apply; negative means none.
func (s *Set) ExplainSome(d *Descriptor, weight int64, others int) []Considered {
	out := s.explainMatched(d, weight)
	k := s.keyer(d)
	misses := make([][]Considered, len(reasonOrder))
	for i := range s.rules {
		c := &s.rules[i]
		reason, sentence := k.consider(c)
		if at := slices.Index(reasonOrder, reason); reason != ReasonMatched && len(misses[at]) < others {
			misses[at] = append(misses[at], Considered{Rule: c, Reason: reason, Sentence: sentence()})
		}
	}
	for _, m := range misses {
		others = max(0, others)
		out = append(out, m[:min(len(m), others)]...)
		others -= min(len(m), others)
	}
	return out
}

func (s *Set) explainMatched(d *Descriptor, weight int64) []Considered {
	var out []Considered
	for _, m := range s.Match(d, weight, nil) {
		out = append(out, Considered{
			Rule: m.Rule, Matched: true, Reason: ReasonMatched,
			Sentence: "The rule applies.",
			Key:      m.Key, Display: m.Display(), Weight: m.Weight,
		})
	}
	return out
}

// consider judges one rule by itself, without the index. The sentence is made
// only when wanted.
func (k *keyer) consider(c *Compiled) (Reason, func() string) {
	if c.route != nil && !c.route.matches(k.route) {
		return ReasonRoute, func() string {
			if k.route == "" {
				return fmt.Sprintf("The rule is for route %s; the request names no route.", *c.Rule.Route)
			}
			return fmt.Sprintf("The rule is for route %s; the request's route %q does not fit it.", *c.Rule.Route, k.route)
		}
	}
	if m := c.Rule.Method; m != nil && *m != k.method {
		return ReasonMethod, func() string {
			if k.method == "" {
				return fmt.Sprintf("The rule is for method %s; the request names no method.", *m)
			}
			return fmt.Sprintf("The rule is for method %s; the request's method is %q.", *m, k.method)
		}
	}
	for i := range c.facts {
		if f := &c.facts[i]; !k.has(f) {
			return ReasonMissingFact, func() string {
				return fmt.Sprintf("The rule counts by %s; the request has no %s.", c.Rule.Scope, f.name())
			}
		}
	}
	if _, ok := c.weight(k.d, 0); !ok {
		return ReasonMissingField, func() string {
			return fmt.Sprintf("The rule weighs requests by the field %s; the request does not have it.", *c.Rule.WeightField)
		}
	}
	return ReasonMatched, nil
}
