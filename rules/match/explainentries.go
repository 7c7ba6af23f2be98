package match

import (
	"fmt"
	"time"

	"sluice/limiter"
	"sluice/rules/entries"
	"sluice/rules/override"
)

// Explained is the result of ExplainEntries.
type Explained struct {
	// Rule is the rule of the descriptor, nil if there is none. It applies if Matched.
	Rule    *Compiled
	Matched bool
	Reason  EntriesReason
	// Sentence explains the reason to people.
	Sentence string
	// Key, Display, Limit and Override are as in Match. They are zero if Rule is nil or not in force.
	Key      limiter.Key
	Display  string
	Limit    limiter.Limit
	Override override.Applied
	// Hidden are the rules with the same descriptor as Rule that do not apply because their ids are
	// higher.
	Hidden []*Compiled
}

// EntriesReason says why a rule applies to a descriptor of Envoy, or why none does. It is part of the
// API.
type EntriesReason string

// The reasons.
const (
	// EntriesMatched: the rule applies.
	EntriesMatched EntriesReason = "matched"
	// EntriesUnlimited: the rule says unlimited, or an override of the key does.
	EntriesUnlimited EntriesReason = "unlimited"
	// EntriesUnknownDomain: no active rule has the domain.
	EntriesUnknownDomain EntriesReason = "unknown_domain"
	// EntriesNoFit: no rule has an entry that fits.
	EntriesNoFit EntriesReason = "no_fit"
	// EntriesTooDeep: the descriptor has more entries than the rules on its path.
	EntriesTooDeep EntriesReason = "too_deep"
	// EntriesNoRule: rules have more entries than the descriptor, and none ends where it does.
	EntriesNoRule EntriesReason = "no_rule"
	// EntriesLifeSpan: the rule is not in force yet, or no longer.
	EntriesLifeSpan EntriesReason = "life_span"
)

// ExplainEntries explains what MatchEntries does.
func (s *Set) ExplainEntries(domain string, list []entries.Entry, now time.Time) Explained {
	found, end, at := s.entries.Walk(domain, list)
	switch end {
	case entries.NoDomain:
		return Explained{Reason: EntriesUnknownDomain, Sentence: "No active rule has the domain."}
	case entries.NoFit:
		return Explained{Reason: EntriesNoFit, Sentence: fmt.Sprintf(
			"No rule on the path has entry %d with this key and value.", at+1)}
	case entries.TooDeep:
		return Explained{Reason: EntriesTooDeep, Sentence: fmt.Sprintf(
			"The descriptor has %s; the rules on its path have %d.", countEntries(len(list)), at)}
	case entries.NoValue:
		return Explained{Reason: EntriesNoRule, Sentence: fmt.Sprintf(
			"The descriptor has %s; the rules on its path have more.", countEntries(len(list)))}
	}
	c := found[0]
	x := Explained{Rule: c, Hidden: found[1:]}
	if at := now.UnixMilli(); at < c.from || at >= c.until {
		x.Reason, x.Sentence = EntriesLifeSpan, c.lifeSpanSentence(at)
		return x
	}
	m := s.matchEntries(c, list, now.UnixMilli())
	x.Key, x.Display, x.Limit, x.Override = m.Key, m.Display(), m.Limit, m.Override
	switch {
	case m.Override.Unlimited:
		x.Reason, x.Sentence = EntriesUnlimited, fmt.Sprintf("Override %d makes the key unlimited.", m.Override.ID)
	case m.Unlimited():
		x.Reason, x.Sentence = EntriesUnlimited, "The rule is unlimited."
	default:
		x.Matched, x.Reason = true, EntriesMatched
		x.Sentence = "The rule applies." + overrideSentence(m.Override, "", m.Limit) + m.Former.sentence()
	}
	for _, other := range x.Hidden {
		x.Sentence += fmt.Sprintf(" Rule %s has the same descriptor and does not apply, because its id is higher.",
			other.Rule.Name)
	}
	return x
}

func countEntries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
