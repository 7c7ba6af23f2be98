package rules

import (
	"time"

	"sluice/limiter"
	"sluice/rules/entries"
	"sluice/rules/override"
)

// Explained is the result of ExplainEntries.
type Explained struct {
	// Rule is the rule that the walk ended at, nil if there is none.
	Rule    *Compiled
	Matched bool
	Reason  EntriesReason
	// Sentence explains the reason to people.
	Sentence string
	// Key, Display, Limit and Override are as in Match, and zero unless Matched.
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
	return Explained{Reason: EntriesUnknownDomain}
}
