package match

import (
	"bytes"
	"net/netip"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/override"
	"sluice/rules/scope"
)

// WithOverrides returns a set with the same rules and other overrides; s is unchanged. o may be
// nil.
func (s *Set) WithOverrides(o *override.Table) *Set {
	out := *s
	out.overrides = o
	return &out
}

// Overrides returns the overrides in force with the set, nil if none were ever set.
func (s *Set) Overrides() *override.Table { return s.overrides }

// OverrideRow returns a row of an override whose key is resolved.
func OverrideRow(o *rules.Override) override.Row {
	row := override.Row{RuleID: o.RuleID, ID: o.ID, Match: o.Match, Prefix: o.Prefix, Unlimited: o.Unlimited,
		Blocked: o.Blocked, Limit: -1, Burst: -1, Calendar: overrideCalendar(o)}
	if o.Limit != nil {
		row.Limit = *o.Limit
	}
	if o.Burst != nil {
		row.Burst = *o.Burst
	}
	if o.ExpiresAt != nil {
		row.ExpiresMS = o.ExpiresAt.UnixMilli()
	}
	return row
}

// overrideCalendar returns the calendar of an override in its compact form.
func overrideCalendar(o *rules.Override) override.Calendar {
	out := override.Calendar{From: o.First.From, Until: o.First.Until}
	if c := o.Calendar; c != nil {
		out.Zone, out.Day, out.Month, out.At = c.Zone, uint8(c.AnchorDay), uint8(c.AnchorMonth), c.At
	}
	return out
}

// override applies the overrides o of rule c to a limit and reports whether the rule limits the
// request at all. key is the bucket's; limit and limited hold without an override; now is in ms
// since the epoch.
func (k *keyer) override(o *override.OfRule, c *Compiled, key []byte, limit limiter.Limit, limited bool,
	now int64) (limiter.Limit, override.Applied, bool) {
	a, f := k.find(o, c, key[:len(key)-len(c.suffix)], now)
	switch {
	case f == nil:
		return limit, a, limited
	case a.Unlimited:
		return limit, a, false
	case a.KeepsLimit:
		return c.periods(limit, f, now), a, limited
	}
	base := c.Base(now)
	base.Kept = limiter.KeptIgnored // the override goes before the limit_field
	return c.overridden(base, f, now), a, true
}

// overridden returns the limit that an override with the effect f makes of the rule's own limit l.
func (c *Compiled) overridden(l limiter.Limit, f *override.Effect, now int64) limiter.Limit {
	return c.periods(f.Apply(l), f, now)
}

// periods returns the limit l in the periods of an override's key.
func (c *Compiled) periods(l limiter.Limit, f *override.Effect, now int64) limiter.Limit {
	return periodsOf(&c.Limits, l, f, now)
}

func periodsOf(limits *rules.Limits, l limiter.Limit, f *override.Effect, now int64) limiter.Limit {
	c := f.Calendar()
	if c == (override.Calendar{}) {
		return l
	}
	return limits.CalendarOf(l, &rules.OverrideCalendar{Zone: c.Zone, AnchorDay: int64(c.Day),
		AnchorMonth: int64(c.Month), At: c.At}, rules.FirstPeriod{From: c.From, Until: c.Until}, now)
}

// find returns the override of a bucket of rule c: by its exact key, then the smallest network around its address, then
// the longest wildcard. facts is the part of the bucket's key before the rule, now is in ms since the epoch. Without
// networks and wildcards it costs one hash.
func (k *keyer) find(o *override.OfRule, c *Compiled, facts []byte, now int64) (override.Applied, *override.Effect) {
	if a, f := exactOverride(o, facts, now); f != nil {
		return a, f
	}
	if o.HasNetworks() && k.d.IP.IsValid() {
		var buf [256]byte
		if a, f := o.Network(shortened(buf[:0], facts), k.set.countedUnder(k.d.IP), now); f != nil {
			return a, f
		}
	}
	if !o.HasWildcards() {
		return override.Applied{}, nil
	}
	return k.wildcard(o, c, now)
}

// exactOverride returns the override of exactly the facts of a key.
func exactOverride(o *override.OfRule, facts []byte, now int64) (override.Applied, *override.Effect) {
	if !o.HasExact() {
		return override.Applied{}, nil
	}
	var buf [256]byte
	return o.Exact(shortened(buf[:0], facts), now)
}

// shortened returns facts with every hash shortened, in buf if there is one.
func shortened(buf, facts []byte) []byte {
	if bytes.IndexByte(facts, '%') < 0 {
		return facts
	}
	return appendShort(buf, facts)
}

// overriddenNetwork returns the network of the override that applied to an address, "" if its key names none.
func (s *Set) overriddenNetwork(a override.Applied, ip netip.Addr) string {
	if a.Network == 0 {
		return ""
	}
	return netip.PrefixFrom(s.opt.NormalAddr(ip), int(a.Network)-1).Masked().String()
}

// wildcard returns the longest wildcard: the wildcard that names the most facts, then the one with the most of the last
// fact. Whole values are compared as in keys. The last one is compared in clear, so that a value that is too long for a
// key, or looks like a credential, matches too.
func (k *keyer) wildcard(o *override.OfRule, c *Compiled, now int64) (found override.Applied, effect *override.Effect) {
	var whole, open, one [256]byte
	before := append(whole[:0], '{')
	for i := range c.facts {
		f := &c.facts[i]
		if i > 0 {
			before = append(before, '+')
		}
		text := append(append(open[:0], before...), f.Label...)
		least := len(text)
		switch f.Kind {
		case scope.APIKey:
			text = limiter.AppendHashed(text, k.d.APIKey)
		case scope.IP:
			text = k.set.appendIP(text, k.d.IP)
		default:
			text = appendClear(text, k.valueFor(c, f))
		}
		if a, f := o.Longest(text, least, now); f != nil {
			found, effect = a, f
		}
		if i == len(c.facts)-1 {
			break
		}
		before = appendShort(before, k.encodeFor(one[:0], c, f))
		if i == 0 {
			before = append(before, '}')
		}
	}
	return found, effect
}
