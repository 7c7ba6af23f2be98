package rules

import (
	"fmt"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules/override"
)

// ExplainOthers is how many rules that do not apply Explain tells about.
const ExplainOthers = 200

// Reason is why a rule applies to a descriptor or not. It is part of the API.
type Reason string

// The reasons, from the one that applies to the one that is furthest from it.
const (
	// ReasonMatched: the rule applies.
	ReasonMatched Reason = "matched"
	// ReasonUnlimited: everything fits, and an override leaves the key, or the rule
	// the request's tier, unlimited.
	ReasonUnlimited Reason = "unlimited"
	// ReasonCondition: everything else fits, and the condition is false.
	ReasonCondition Reason = "condition"
	// ReasonLifeSpan: everything else fits, but the rule is not in force yet, or
	// no longer.
	ReasonLifeSpan Reason = "life_span"
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

var reasonOrder = []Reason{ReasonMatched, ReasonUnlimited, ReasonCondition, ReasonLifeSpan, ReasonMissingField, ReasonMissingFact, ReasonMethod, ReasonRoute}

// Considered is what Explain says about one rule.
type Considered struct {
	Rule    *Compiled
	Matched bool
	Reason  Reason
	// Sentence says the same to people.
	Sentence string
	// Key, Display, Limit and Weight are as in Match; zero unless Matched.
	Key     limiter.Key
	Display string
	Limit   limiter.Limit
	Weight  int64
	// Override is what an override had to say, zero without one.
	Override override.Applied
}

// Explain considers every active rule: first those that apply, exactly as Match
// gives them, then up to ExplainOthers of the rest, the nearest misses first
// and by id among equals. It reads all rules, so it is for people and not for
// the path of a check.
func (s *Set) Explain(d *Descriptor, weight int64, now time.Time) []Considered {
	return s.ExplainSome(d, weight, now, ExplainOthers)
}

// ExplainSome is Explain with a bound of the caller's on the rules that do not
// apply; negative means none.
func (s *Set) ExplainSome(d *Descriptor, weight int64, now time.Time, others int) []Considered {
	out := s.explainMatched(d, weight, now)
	k := s.keyer(d)
	misses := make([][]Considered, len(reasonOrder))
	for c := range s.rules.all() {
		reason, sentence := k.consider(c, weight, now)
		if at := slices.Index(reasonOrder, reason); reason != ReasonMatched && len(misses[at]) < others {
			misses[at] = append(misses[at], Considered{Rule: c, Reason: reason, Sentence: sentence(), Override: k.explainOverride(c, reason, now)})
		}
	}
	for _, m := range misses {
		others = max(0, others)
		out = append(out, m[:min(len(m), others)]...)
		others -= min(len(m), others)
	}
	return out
}

func (s *Set) explainMatched(d *Descriptor, weight int64, now time.Time) []Considered {
	var out []Considered
	for _, m := range s.Match(d, weight, now, nil) {
		out = append(out, Considered{
			Rule: m.Rule, Matched: true, Reason: ReasonMatched,
			Sentence: "The rule applies." + overrideSentence(m.Override, m.Limit),
			Key:      m.Key, Display: m.Display(), Limit: m.Limit, Weight: m.Weight, Override: m.Override,
		})
	}
	return out
}

// consider judges one rule by itself, without the index. The sentence is made
// only when wanted.
func (k *keyer) consider(c *Compiled, weight int64, now time.Time) (Reason, func() string) {
	if c.route != nil && !c.route.Matches(k.route) {
		return ReasonRoute, func() string {
			if k.route == "" {
				return fmt.Sprintf("The rule applies to route %s; the request has no route.", *c.Rule.Route)
			}
			return fmt.Sprintf("The rule applies to route %s; the request's route %q does not match.", *c.Rule.Route, k.route)
		}
	}
	if m := c.Rule.Method; m != nil && *m != k.method {
		return ReasonMethod, func() string {
			if k.method == "" {
				return fmt.Sprintf("The rule applies to method %s; the request has no method.", *m)
			}
			return fmt.Sprintf("The rule applies to method %s; the request's method is %q.", *m, k.method)
		}
	}
	for i := range c.facts {
		if f := &c.facts[i]; !k.has(f) {
			return ReasonMissingFact, func() string {
				return fmt.Sprintf("The rule counts by %s; the request has no %s.", c.Rule.Scope, f.name())
			}
		}
	}
	w, ok := c.weight(k.d, weight)
	if !ok {
		return ReasonMissingField, func() string {
			return fmt.Sprintf("The rule takes the weight from the field %s; the request does not have it.", *c.Rule.WeightField)
		}
	}
	return k.considerPolicy(c, w, now.UnixMilli())
}

// considerPolicy judges what the rule says about time, condition and tier.
func (k *keyer) considerPolicy(c *Compiled, weight, now int64) (Reason, func() string) {
	switch {
	case now < c.from:
		return ReasonLifeSpan, func() string {
			return fmt.Sprintf("The rule is not in force before %s.", formatInstant(c.Rule.ActiveFrom))
		}
	case now >= c.until:
		return ReasonLifeSpan, func() string {
			return fmt.Sprintf("The rule expired at %s.", formatInstant(c.Rule.ActiveUntil))
		}
	case c.when != nil && !k.holds(c, weight):
		return ReasonCondition, func() string {
			return fmt.Sprintf("The rule's condition is false: %s", *c.Rule.When)
		}
	}
	a, found := k.overrideOf(c, now)
	if a.Unlimited {
		return ReasonUnlimited, func() string {
			return fmt.Sprintf("Override %d makes the key unlimited.", a.ID)
		}
	}
	if _, limited := c.effective(k.d, now); !limited && !found {
		return ReasonUnlimited, func() string {
			return fmt.Sprintf("The rule does not limit the tier %q.", k.d.Tier)
		}
	}
	return ReasonMatched, nil
}

// explainOverride is the override of a rule that an override keeps from applying.
func (k *keyer) explainOverride(c *Compiled, reason Reason, now time.Time) override.Applied {
	if reason != ReasonUnlimited {
		return override.Applied{}
	}
	a, _ := k.overrideOf(c, now.UnixMilli())
	return a
}

// overrideOf finds the override of a rule whose facts are all present.
func (k *keyer) overrideOf(c *Compiled, now int64) (override.Applied, bool) {
	o := k.set.overrides.Of(c.Rule.ID)
	if o == nil || len(c.facts) == 0 {
		return override.Applied{}, false
	}
	key := k.appendKey(nil, c)
	a, f := k.find(o, c, key[:len(key)-len(c.suffix)], now)
	return a, f != nil
}

// overrideSentence says to people what an override did to a limit, "" for none.
func overrideSentence(a override.Applied, l limiter.Limit) string {
	switch {
	case a.ID == 0:
		return ""
	case a.Blocked:
		return fmt.Sprintf(" Override %d blocks the key.", a.ID)
	}
	return fmt.Sprintf(" Override %d sets its limit to %d.", a.ID, l.Count)
}
