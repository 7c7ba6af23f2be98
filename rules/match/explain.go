package match

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/override"
	"sluice/rules/route"
	"sluice/rules/when"
)

// ExplainOthers is the number of rules that do not apply that Explain reports.
const ExplainOthers = 200

// Reason says why a rule applies to a descriptor or not. It is part of the API.
type Reason string

// The reasons, from a rule that applies to the reason that is furthest from it.
const (
	// ReasonMatched: the rule applies.
	ReasonMatched Reason = "matched"
	// ReasonReplaced: the rule would apply, but another one that applies replaces it.
	ReasonReplaced Reason = "replaced"
	// ReasonUnlimited: everything matches, but an override makes the key unlimited, or the rule
	// makes the request's tier unlimited.
	ReasonUnlimited Reason = "unlimited"
	// ReasonCondition: everything else matches, but the condition is false.
	ReasonCondition Reason = "condition"
	// ReasonLifeSpan: everything else matches, but the rule is not in force yet, or no longer.
	ReasonLifeSpan Reason = "life_span"
	// ReasonMissingField: everything matches, but the descriptor lacks the field that holds the
	// weight.
	ReasonMissingField Reason = "missing_field"
	// ReasonMissingFact: route, method and host match, but a fact of the scope is absent.
	ReasonMissingFact Reason = "missing_fact"
	// ReasonHost: route and method match, the host does not.
	ReasonHost Reason = "host"
	// ReasonMethod: the route matches, the method does not.
	ReasonMethod Reason = "method"
	// ReasonRoute: the route does not match.
	ReasonRoute Reason = "route"
)

var reasonOrder = []Reason{ReasonMatched, ReasonReplaced, ReasonUnlimited, ReasonCondition, ReasonLifeSpan,
	ReasonMissingField, ReasonMissingFact, ReasonHost, ReasonMethod, ReasonRoute}

// Considered is the result of Explain for one rule.
type Considered struct {
	Rule    *Compiled
	Matched bool
	Reason  Reason
	// Sentence explains the reason to people.
	Sentence string
	// Key, Display, Limit and Weight are as in Match, and zero unless Matched.
	Key     limiter.Key
	Display string
	Limit   limiter.Limit
	Weight  int64
	// Override is the override that applies, zero if there is none. Network is the network that its key names, "" if it
	// names none.
	Override override.Applied
	Network  string
	// ReplacedBy are the names of the rules that replace it, with ReasonReplaced.
	ReplacedBy []string
}

// Explain considers every active rule. It returns first the rules that apply, exactly as Match does, then up to
// ExplainOthers of the rest, the nearest misses first and by id among equals. It reads all rules, so do not use it on
// the path of a check.
func (s *Set) Explain(d *Descriptor, weight int64, now time.Time) []Considered {
	return s.ExplainSome(d, weight, now, ExplainOthers)
}

// ExplainSome is Explain with the given bound on the rules that do not apply; a negative bound
// means none.
func (s *Set) ExplainSome(d *Descriptor, weight int64, now time.Time, others int) []Considered {
	out := s.explainMatched(d, weight, now)
	k := s.keyer(d)
	misses := make([][]Considered, len(reasonOrder))
	replacing := k.replacing(weight, now)
	for c := range s.rules.all() {
		if c.Rule.Descriptor != nil {
			continue // see ExplainEntries
		}
		reason, sentence := k.consider(c, weight, now)
		by := namesOf(replacing, c)
		if reason == ReasonMatched && by != nil {
			reason, sentence = ReasonReplaced, func() string {
				return fmt.Sprintf("The request is subject to %s, which replaces this rule.", strings.Join(by, " and "))
			}
		}
		if at := slices.Index(reasonOrder, reason); reason != ReasonMatched && len(misses[at]) < others {
			o := k.explainOverride(c, reason, now)
			misses[at] = append(misses[at], Considered{Rule: c, Reason: reason, Sentence: sentence(), Override: o,
				Network: s.overriddenNetwork(o, d.IP)})
			if last := &misses[at][len(misses[at])-1]; reason == ReasonReplaced {
				last.ReplacedBy = by
			}
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
	k := s.keyer(d)
	matched := s.Match(d, weight, now, nil)
	for _, m := range matched {
		network := s.overriddenNetwork(m.Override, d.IP)
		out = append(out, Considered{
			Rule: m.Rule, Matched: true, Reason: ReasonMatched,
			Sentence: "The rule applies." + k.headSentence(m.Rule) + wouldReplace(m.Rule, matched) + k.failureSentence(&m) +
				overrideSentence(m.Override, network, m.Limit) + m.keptSentence() + m.Former.sentence(),
			Key: m.Key, Display: m.Display(), Limit: m.Limit, Weight: m.Weight, Override: m.Override, Network: network,
		})
	}
	return out
}

// consider evaluates a single rule, without the index. The sentence is built only on demand.
func (k *keyer) consider(c *Compiled, weight int64, now time.Time) (Reason, func() string) {
	if c.route != nil && !c.route.Matches(k.route) {
		return ReasonRoute, func() string {
			if k.route == "" {
				return fmt.Sprintf("The rule applies to route %s; the request has no route.", *c.Rule.Route)
			}
			return fmt.Sprintf("The rule applies to route %s; the request's route %q does not match.", *c.Rule.Route, k.route)
		}
	}
	if m := c.Rule.Method; m != nil && !route.Covers(*m, k.method) {
		return ReasonMethod, func() string {
			if k.method == "" {
				return fmt.Sprintf("The rule applies to method %s; the request has no method.", *m)
			}
			return fmt.Sprintf("The rule applies to method %s; the request's method is %q.", *m, k.method)
		}
	}
	if h := c.host; h != "" && (k.d.Host == "" || !host.Matches(h, k.d.Host)) {
		return ReasonHost, func() string {
			if k.d.Host == "" {
				return fmt.Sprintf("The rule applies to host %s; the request has no host.", *c.Rule.Host)
			}
			return fmt.Sprintf("The rule applies to host %s; the request's host is %q.", *c.Rule.Host, k.d.Host)
		}
	}
	for i := range c.facts {
		if f := &c.facts[i]; !k.has(f) {
			return ReasonMissingFact, func() string {
				return fmt.Sprintf("The rule counts by %s; the request has no %s.", c.Rule.Scope, f.Name())
			}
		}
	}
	if c.Rule.WeightField != nil {
		var ok bool
		if weight, ok = c.fieldWeight(k.d); !ok {
			return ReasonMissingField, func() string {
				return fmt.Sprintf("The rule takes the weight from the field %s; the request does not have it and is not "+
					"limited by the rule. To deny such requests, add a rule with limit 0 and the condition %s.",
					*c.Rule.WeightField, c.Rule.FieldGuard())
			}
		}
	}
	return k.considerPolicy(c, weight, now.UnixMilli())
}

// considerPolicy evaluates time, condition and tier of the rule.
func (k *keyer) considerPolicy(c *Compiled, weight, now int64) (Reason, func() string) {
	switch {
	case now < c.from || now >= c.until:
		return ReasonLifeSpan, func() string { return c.lifeSpanSentence(now) }
	case c.when != nil:
		if holds, _ := k.holds(c, weight); !holds {
			return ReasonCondition, func() string {
				return fmt.Sprintf("The rule's condition is false: %s", *c.Rule.When) + k.headSentence(c)
			}
		}
	}
	a, found := k.overrideOf(c, now)
	if a.Unlimited {
		return ReasonUnlimited, func() string {
			return fmt.Sprintf("%s makes the key unlimited.", overrideName(a, k.set.overriddenNetwork(a, k.d.IP)))
		}
	}
	if _, limited := c.For(k.d.Tier, now); !limited && (!found || a.KeepsLimit) {
		return ReasonUnlimited, func() string {
			return fmt.Sprintf("The rule does not limit the tier %q.", k.d.Tier)
		}
	}
	return ReasonMatched, nil
}

// replacing returns the rules that apply to the descriptor and replace others.
func (k *keyer) replacing(weight int64, now time.Time) (out []*Compiled) {
	for c := range k.set.rules.all() {
		if !c.replaces {
			continue
		}
		w := weight
		if c.Rule.WeightField != nil {
			w, _ = c.fieldWeight(k.d)
		}
		reason, _ := k.consider(c, weight, now)
		if reason != ReasonMatched && reason != ReasonUnlimited {
			continue
		}
		if c.when != nil {
			if _, err := k.holds(c, w); err != nil {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// namesOf returns the names of the given rules that replace c.
func namesOf(replacing []*Compiled, c *Compiled) (names []string) {
	for _, by := range replacing {
		if by.names(c) {
			names = append(names, by.Rule.Name)
		}
	}
	return names
}

// wouldReplace says which of the rules that apply a shadow rule would replace if it were enforced, "" for none.
func wouldReplace(c *Compiled, matched []Match) string {
	if !c.Rule.WouldReplace() {
		return ""
	}
	var names []string
	for i := range matched {
		if c.names(matched[i].Rule) {
			names = append(names, matched[i].Rule.Rule.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf(" In shadow mode it replaces nothing; enforced, it would replace %s.", strings.Join(names, " and "))
}

// headSentence says that a rule for GET counts the request, which is HEAD; "" for others.
func (k *keyer) headSentence(c *Compiled) string {
	if m := c.Rule.Method; m == nil || *m == k.method {
		return ""
	}
	return fmt.Sprintf(" A rule for %s counts %s too.", *c.Rule.Method, k.method)
}

// failureSentence says why the condition of a rule that applies failed, "" if it did not.
func (k *keyer) failureSentence(m *Match) string {
	if !m.ConditionFailed {
		return ""
	}
	_, err := k.holds(m.Rule, m.Weight)
	why := strings.TrimPrefix(when.Clip(fmt.Sprint(err)), "runtime error: ")
	return " Its condition failed, which counts as true: " + why
}

// lifeSpanSentence says why a rule is not in force.
func (c *Compiled) lifeSpanSentence(now int64) string {
	if now < c.from {
		return fmt.Sprintf("The rule is not in force before %s.", field.FormatInstant(c.Rule.ActiveFrom))
	}
	return fmt.Sprintf("The rule expired at %s.", field.FormatInstant(c.Rule.ActiveUntil))
}

// explainOverride returns the override because of which a rule does not apply.
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

// overrideSentence describes the effect of an override on a limit for people, "" for none.
func overrideSentence(a override.Applied, network string, l limiter.Limit) string {
	switch {
	case a.ID == 0:
		return ""
	case a.Blocked:
		return fmt.Sprintf(" %s blocks the key.", overrideName(a, network))
	}
	does := fmt.Sprintf("sets its limit to %d", l.Count)
	if a.Calendar {
		from, until := time.UnixMilli(l.Anchor), time.UnixMilli(l.Anchor+l.Window)
		period := fmt.Sprintf("makes its period last from %s to %s", field.FormatInstant(&from),
			field.FormatInstant(&until))
		if a.KeepsLimit {
			does = period
		} else {
			does += " and " + period
		}
	}
	return fmt.Sprintf(" %s %s.", overrideName(a, network), does)
}

// keptSentence says where the limit of a rule with a limit_field is from, "" for other limits.
func (m *Match) keptSentence() string {
	switch m.Limit.Kept {
	case limiter.KeptSet:
		return fmt.Sprintf(" The field %s allows the key %d at most, or less if an earlier request has set that.",
			*m.Rule.Rule.LimitField, m.Limit.Count)
	case limiter.KeptObeyed:
		return fmt.Sprintf(" The request does not have the field %s. The limit is what an earlier request has set, else "+
			"that of the rule.", *m.Rule.Rule.LimitField)
	}
	return ""
}

// overrideName names an override in a sentence, and the network of its key if it names one.
func overrideName(a override.Applied, network string) string {
	if network == "" {
		return fmt.Sprintf("Override %d", a.ID)
	}
	return fmt.Sprintf("Override %d of the network %s", a.ID, network)
}
