package rules

import (
	"time"

	"sluice/limiter"
	"sluice/rules/entries"
)

// HasDomain reports whether an active rule has a descriptor of the domain.
func (s *Set) HasDomain(domain string) bool { return false }

// MatchEntries returns the one rule that applies to a descriptor of a domain, with its bucket and
// limit, or false if there is none. Match.Weight is 0. Neither Match.Rule.Unlimited nor
// Match.Override.Unlimited is applied: the caller checks them.
func (s *Set) MatchEntries(domain string, list []entries.Entry, now time.Time) (Match, bool) {
	return Match{}, false
}

// EntriesKey returns the bucket of a descriptor whose limit comes with the request. It is never that
// of a rule.
func (s *Set) EntriesKey(domain string, list []entries.Entry) limiter.Key { return "" }
