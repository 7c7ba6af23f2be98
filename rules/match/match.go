package match

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules/route"
	"sluice/rules/scope"
)

// Match appends to dst the rules that apply to a descriptor, ordered by id, each with its bucket, limit and weight. A
// rule applies if its route, method and host match, the descriptor has every fact of its scope and the field of its
// weight_field, now is within its life span, its condition is true, and neither its override nor its tiers make the
// request unlimited. All rules that apply count, except rules that another rule replaces (rules.Rule.Replaces).
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
	return s.match(ctx, d, weight, now.UnixMilli(), now, false, dst)
}

// MatchSpan is MatchContext for an instant until, with the rules too whose life span begins or ends between since and
// until. One that has ended at until replaces nothing.
func (s *Set) MatchSpan(ctx context.Context, d *Descriptor, weight int64, since, until time.Time,
	dst []Match) ([]Match, error) {
	return s.match(ctx, d, weight, since.UnixMilli(), until, false, dst)
}

// MatchBuckets is MatchContext for operations that spend nothing, such as a reset: the amounts of a request are not
// known then. A weight_field does not count, a condition on fields or weight counts as true, and no rule replaces
// another.
func (s *Set) MatchBuckets(ctx context.Context, d *Descriptor, weight int64, now time.Time,
	dst []Match) ([]Match, error) {
	return s.match(ctx, d, weight, now.UnixMilli(), now, true, dst)
}

func (s *Set) match(ctx context.Context, d *Descriptor, weight, since int64, now time.Time, anyAmount bool,
	dst []Match) ([]Match, error) {
	var (
		found     [64]*Compiled // a larger one grows on the heap
		buf       [256]byte
		replacing []*Compiled
	)
	first := len(dst)
	k := s.keyer(d)
	at := now.UnixMilli()
	key := buf[:0]
	has := k.facts()
	for _, c := range s.index.collect(k.route, k.method, d.Host, found[:0]) {
		if c.need&^has != 0 || at < c.from || since >= c.until || c.need&(1<<scope.Attribute) != 0 && !k.hasAttributes(c) {
			continue
		}
		w := weight
		if c.Rule.WeightField != nil && !anyAmount {
			var ok bool
			if w, ok = c.fieldWeight(d); !ok {
				continue
			}
		}
		failed := false
		if c.when != nil && (!anyAmount || !c.when.Amounts()) {
			if c.when.Patterns().Total > 0 && errors.Is(ctx.Err(), context.Canceled) {
				return dst, ctx.Err()
			}
			holds, err := k.holds(c, w)
			if failed = err != nil; !holds {
				continue
			}
		}
		// It replaces whether or not an override or a tier makes it unlimited.
		if c.replaces && !failed && !anyAmount && at < c.until {
			replacing = append(replacing, c)
		}
		m, limited := Match{Rule: c, Key: c.globalKey, Limit: c.Limit, Weight: w, ConditionFailed: failed}, true
		if c.varies {
			m.Limit, limited = c.For(d.Tier, at)
		}
		if len(c.facts) > 0 {
			key = k.appendKey(key[:0], c)
			o := s.overrides.Of(c.Rule.ID)
			if o != nil {
				m.Limit, m.Override, limited = k.override(o, c, key, m.Limit, limited, at)
			}
			if !limited {
				continue
			}
			if c.former != nil {
				m.Former = k.former(c, o, key[:len(key)-len(c.suffix)], at)
			}
			if m.Limit.PerPeriod {
				key = limiter.AppendPeriod(key, m.Limit)
			}
			m.Key = limiter.Key(key)
		} else if limited {
			if c.former != nil {
				m.Former = k.former(c, nil, nil, at)
			}
			m.Key = ofPeriod(m.Key, m.Limit)
		}
		if !limited {
			continue
		}
		if m.Limit.Kept != limiter.KeptIgnored {
			m.Limit = c.limitOf(d, m.Limit)
		}
		dst = append(dst, m)
	}
	if replacing != nil {
		dst = withoutReplaced(dst, first, replacing)
	}
	return dst, nil
}

// withoutReplaced removes the matches, from the given one on, whose rules a replacing rule names. A replaced rule still
// replaces others.
func withoutReplaced(list []Match, from int, replacing []*Compiled) []Match {
	kept := list[:from]
	for i := range list[from:] {
		if m := &list[from+i]; !slices.ContainsFunc(replacing, func(c *Compiled) bool { return c.names(m.Rule) }) {
			kept = append(kept, *m)
		}
	}
	clear(list[len(kept):])
	return kept
}

// names reports whether a rule names another one in replaces.
func (c *Compiled) names(other *Compiled) bool {
	return slices.Contains(c.Rule.Replaces, other.Rule.Name)
}

func (s *Set) keyer(d *Descriptor) keyer {
	path := route.Normalize(d.Route)
	if s.opt.FoldRoute {
		path = route.Fold(path)
	}
	return keyer{set: s, d: d, route: path, method: route.NormalizeMethod(d.Method)}
}

// facts returns the bits of the facts that the descriptor has. That of attributes says that it has
// any.
func (k *keyer) facts() (bits uint8) {
	if k.d.IP.IsValid() {
		bits |= 1 << scope.IP
	}
	if len(k.d.Attributes) > 0 {
		bits |= 1 << scope.Attribute
	}
	for kind, value := range [...]string{
		scope.User: k.d.User, scope.APIKey: k.d.APIKey, scope.Host: k.d.Host, scope.Tier: k.d.Tier, scope.Route: k.route,
		scope.Method: k.method,
	} {
		if value != "" {
			bits |= 1 << kind
		}
	}
	return bits
}

// hasAttributes reports whether the descriptor has every attribute of a rule's scope.
func (k *keyer) hasAttributes(c *Compiled) bool {
	for i := range c.facts {
		if c.facts[i].Kind == scope.Attribute && k.d.Attributes[c.facts[i].Attribute] == "" {
			return false
		}
	}
	return true
}

// limitOf returns the limit of a request whose bucket keeps one: the value of the rule's limit_field, at most l.
func (c *Compiled) limitOf(d *Descriptor, l limiter.Limit) limiter.Limit {
	if v, ok := d.Fields[*c.Rule.LimitField]; ok {
		l.Count, l.Kept = min(max(v, 0), l.Count), limiter.KeptSet
	}
	return l
}

// fieldWeight returns the value of the rule's weight_field, false if the descriptor lacks it. A value
// outside the range of weights, which decoders reject, becomes the nearest weight.
func (c *Compiled) fieldWeight(d *Descriptor) (int64, bool) {
	v, ok := d.Fields[*c.Rule.WeightField]
	return min(max(v, 0), limiter.MaxExact), ok
}
