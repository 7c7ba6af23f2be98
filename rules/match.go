package rules

import (
	"context"
	"errors"
	"time"

	"sluice/limiter"
	"sluice/rules/route"
)

// Match appends to dst the rules that apply to a descriptor, ordered by id, each with its bucket,
// limit and weight. A rule applies if its route and method match, the descriptor has every fact of
// its scope and the field of its weight_field, now is within its life span, its condition is true,
// and neither its override nor its tiers make the request unlimited. All rules that apply count;
// none takes precedence.
//
// weight is the request's own weight in units, now the wall clock. Pass dst[:0] to reuse memory:
// then only the keys are allocated, one string each. Match changes neither d
// nor the set.
func (s *Set) Match(d *Descriptor, weight int64, now time.Time, dst []Match) []Match {
	dst, _ = s.MatchContext(context.Background(), d, weight, now, dst)
	return dst
}

// MatchContext is Match for a caller who may leave: once ctx is canceled it ends
// before the next condition that has patterns, which may be slow, with the error
// of ctx. A deadline that has passed does not end it.
func (s *Set) MatchContext(ctx context.Context, d *Descriptor, weight int64, now time.Time,
	dst []Match) ([]Match, error) {
	var (
		found [64]*Compiled // grows beyond that on the heap
		buf   [256]byte
	)
	k := s.keyer(d)
	at := now.UnixMilli()
	key := buf[:0]
	have := k.have()
	for _, c := range s.index.collect(k.route, k.method, found[:0]) {
		if c.need&^have != 0 || !k.hasAttributes(c) {
			continue
		}
		w, ok := c.weight(d, weight)
		if !ok || at < c.from || at >= c.until {
			continue
		}
		if c.when != nil {
			if c.when.patterns.Total > 0 && errors.Is(ctx.Err(), context.Canceled) {
				return dst, ctx.Err()
			}
			if !k.holds(c, w) {
				continue
			}
		}
		limit, limited := c.effective(d, at)
		m := Match{Rule: c, Key: c.globalKey, Limit: limit, Weight: w}
		if len(c.facts) > 0 {
			key = k.appendKey(key[:0], c)
			if o := s.overrides.Of(c.Rule.ID); o != nil {
				m.Limit, m.Override, limited = k.override(o, c, key, m.Limit, limited, at)
			}
			if !limited {
				continue
			}
			m.Key = limiter.Key(key)
		}
		if !limited {
			continue
		}
		dst = append(dst, m)
	}
	return dst, nil
}

func (s *Set) keyer(d *Descriptor) keyer {
	return keyer{set: s, d: d, route: route.Normalize(d.Route), method: route.NormalizeMethod(d.Method)}
}

// have returns the bits of the facts present, without attributes.
func (k *keyer) have() (bits uint8) {
	for kind := range factKinds {
		if kind != factAttr && k.has(&fact{kind: kind}) {
			bits |= 1 << kind
		}
	}
	return bits
}

func (k *keyer) hasAttributes(c *Compiled) bool {
	for i := range c.facts {
		if c.facts[i].kind == factAttr && k.d.Attributes[c.facts[i].attr] == "" {
			return false
		}
	}
	return true
}

// weight is what a request weighs for this rule, false when the rule names a
// field that the descriptor lacks. Fields out of a weight's range, which
// decoders refuse, are brought into it.
func (c *Compiled) weight(d *Descriptor, weight int64) (int64, bool) {
	if c.Rule.WeightField == nil {
		return weight, true
	}
	v, ok := d.Fields[*c.Rule.WeightField]
	return min(max(v, 0), limiter.MaxExact), ok
}
