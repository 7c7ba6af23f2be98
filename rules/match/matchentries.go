package match

import (
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/override"
)

// byEntries finds the rules of descriptors of Envoy. Rules with the same descriptor are ordered by
// id. It is immutable.
type byEntries = entries.Tree[[]*Compiled]

// entriesWith returns the tree plus a rule with a descriptor. inPlace is as for entries.Tree.Put.
func entriesWith(t byEntries, c *Compiled, inPlace bool) byEntries {
	d := c.Rule.Descriptor
	list, _ := t.Get(d.Domain, d.Entries)
	at, _ := slices.BinarySearchFunc(list, c, compareRules)
	return t.Put(d.Domain, d.Entries, slices.Insert(slices.Clip(list), at, c), inPlace)
}

// entriesWithout returns the tree minus a rule that is in it.
func entriesWithout(t byEntries, c *Compiled) byEntries {
	d := c.Rule.Descriptor
	list, _ := t.Get(d.Domain, d.Entries)
	list = slices.DeleteFunc(slices.Clone(list), func(other *Compiled) bool { return other == c })
	if len(list) == 0 {
		return t.Remove(d.Domain, d.Entries)
	}
	return t.Put(d.Domain, d.Entries, list, false)
}

// HasDomain reports whether an active rule has a descriptor of the domain.
func (s *Set) HasDomain(domain string) bool { return s.entries.HasDomain(domain) }

// MatchEntries returns the one rule that applies to a descriptor of a domain, with its bucket and
// limit, or false if there is none. Match.Weight is 0. The rule may limit nothing; see
// Match.Unlimited. Of rules with the same descriptor only the one with the lowest id counts. Only
// the key is allocated.
func (s *Set) MatchEntries(domain string, list []entries.Entry, now time.Time) (Match, bool) {
	found, end, _ := s.entries.Walk(domain, list)
	at := now.UnixMilli()
	if end != entries.Found || at < found[0].from || at >= found[0].until {
		return Match{}, false
	}
	return s.matchEntries(found[0], list, at), true
}

func (s *Set) matchEntries(c *Compiled, list []entries.Entry, now int64) Match {
	var buf [256]byte
	key := appendEntries(buf[:0], &c.Rule, c.Rule.Descriptor.Domain, list)
	m := Match{Rule: c, Limit: c.Base(now)}
	var f *override.Effect
	if o := s.overrides.Of(c.Rule.ID); o != nil {
		var a override.Applied
		if a, f = exactOverride(o, key, now); f == nil && o.HasWildcards() {
			a, f = wildcardOfEntries(o, &c.Rule, list, now)
		}
		if f != nil {
			m.Override = a
		}
		if f != nil && !a.Unlimited {
			m.Limit = c.overridden(m.Limit, f, now)
		}
	}
	m.Former = c.formerBase(m.Override, f, now)
	m.Key = ofPeriod(limiter.Key(append(key, c.suffix...)), m.Limit)
	return m
}

// wildcardOfEntries returns the longest wildcard that applies to a descriptor: the wildcard that names the most
// entries, then the one with the most of the last value. See keyer.wildcard.
func wildcardOfEntries(o *override.OfRule, r *rules.Rule, list []entries.Entry, now int64) (found override.Applied,
	effect *override.Effect) {
	var whole, open, one [256]byte
	before := appendDomain(whole[:0], r.Descriptor.Domain)
	for i := range list {
		before = appendEntryKey(before, list[i].Key, i == 0)
		value, shared := list[i].Value, r.SharedPattern(i)
		text := append(open[:0], before...)
		if shared != "" {
			text = appendPart(text, shared, true)
		} else {
			text = appendClearPart(text, value)
		}
		if a, f := o.Longest(text, len(before), now); f != nil {
			found, effect = a, f
		}
		if hash, ok := strings.CutPrefix(value, hashMark); ok { // from findEntries
			before = append(append(before, "%h"...), hash[:shownHash]...)
		} else {
			before = appendShort(before, appendEntryValue(one[:0], value, shared))
		}
	}
	return found, effect
}

// appendClearPart is appendPart without its bound, for comparing wildcards.
func appendClearPart(dst []byte, value string) []byte {
	for len(value) > limiter.MaxKeyValue/3 {
		dst = appendPart(dst, value[:limiter.MaxKeyValue/3], false)
		value = value[limiter.MaxKeyValue/3:]
	}
	return appendPart(dst, value, false)
}

// Unlimited reports whether the rule of a descriptor does not limit it: an override makes the key
// unlimited, or the rule is unlimited and no override of the key sets a limit.
func (m *Match) Unlimited() bool {
	return m.Override.Unlimited || m.Rule.Rule.Unlimited && (m.Override.ID == 0 || m.Override.KeepsLimit)
}

// EntriesKey returns the bucket of a descriptor whose limit, in a fixed window, comes with the request. It never equals
// the bucket of a rule.
func (s *Set) EntriesKey(domain string, list []entries.Entry) limiter.Key {
	var buf [256]byte
	return limiter.Key(append(appendEntries(buf[:0], nil, domain, list), entriesKind...))
}
