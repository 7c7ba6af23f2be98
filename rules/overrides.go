package rules

import (
	"bytes"

	"sluice/limiter"
	"sluice/rules/override"
)

// WithOverrides gives a set with the same rules and other overrides; s stays as
// it is. o may be nil.
func (s *Set) WithOverrides(o *override.Table) *Set {
	out := *s
	out.overrides = o
	return &out
}

// Overrides are those in force with the set, nil if none were ever given.
func (s *Set) Overrides() *override.Table { return s.overrides }

// override gives what the overrides o of rule c make of a limit, and whether the
// rule limits the request at all. key is the bucket's, limit and limited what
// holds without an override, now is in ms since the epoch.
func (k *keyer) override(o *override.OfRule, c *Compiled, key []byte, limit limiter.Limit, limited bool, now int64) (limiter.Limit, override.Applied, bool) {
	a, f := k.find(o, c, key[:len(key)-len(c.suffix)], now)
	switch {
	case f == nil:
		return limit, a, limited
	case a.Unlimited:
		return limit, a, false
	}
	return f.Apply(c.base(now)), a, true
}

// find looks for the override of a bucket of rule c: first its exact key, then
// the longest wildcard. facts is what the bucket's key says before the rule, now
// is in ms since the epoch. It costs one hash where there is no wildcard.
func (k *keyer) find(o *override.OfRule, c *Compiled, facts []byte, now int64) (override.Applied, *override.Effect) {
	if o.HasExact() {
		var buf [256]byte
		key := facts
		if bytes.IndexByte(key, '%') >= 0 {
			key = appendShort(buf[:0], key)
		}
		if a, f := o.Exact(key, now); f != nil {
			return a, f
		}
	}
	if !o.HasWildcards() {
		return override.Applied{}, nil
	}
	return k.wildcard(o, c, now)
}

// wildcard finds the longest wildcard: the one that names most facts, and of
// those the one that says most of the last. Whole values are compared as keys
// have them; the last one in clear, so that one too long for a key, or one that
// looks like a credential, does not slip past.
func (k *keyer) wildcard(o *override.OfRule, c *Compiled, now int64) (found override.Applied, effect *override.Effect) {
	var whole, open, one [256]byte
	before := append(whole[:0], '{')
	for i := range c.facts {
		f := &c.facts[i]
		if i > 0 {
			before = append(before, '+')
		}
		text := append(append(open[:0], before...), f.label...)
		least := len(text)
		switch f.kind {
		case factAPIKey:
			text = limiter.AppendHashed(text, k.d.APIKey)
		case factIP:
			text = k.set.appendIP(text, k.d.IP)
		default:
			text = appendClear(text, k.value(f))
		}
		if a, f := o.Longest(text, least, now); f != nil {
			found, effect = a, f
		}
		if i == len(c.facts)-1 {
			break
		}
		before = appendShort(before, k.encode(one[:0], f))
		if i == 0 {
			before = append(before, '}')
		}
	}
	return found, effect
}
