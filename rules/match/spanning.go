package match

import (
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/override"
)

// Spanning returns the rule and the limit of a bucket that spans regions and about which another region has sent sums.
// It returns false if the bucket does not belong to a rule of this set whose limit, with its present algorithm, spans
// regions.
//
// The limit applies to a request without a tier at an instant, with an override of the key. It serves to count the
// units that other regions spent, for which only the window and, for a bucket that drains, the rate matter;
// limiter.Sums.Limit holds the rate of a tier.
func (s *Set) Spanning(key limiter.Key, now time.Time) (*Compiled, limiter.Limit, bool) {
	id, ok := RuleID(key)
	if !ok {
		return nil, limiter.Limit{}, false
	}
	c := s.Get(id)
	if c == nil || !c.Spans(key) {
		return nil, limiter.Limit{}, false
	}
	at := now.UnixMilli()
	limit := c.Base(at)
	if o := s.overrides.Of(id); o != nil && c.Rule.Descriptor == nil && len(c.facts) > 0 {
		limit = s.overridden(o, c, key, limit, now)
	}
	if limit.Algorithm.Traits().Decay == limiter.DecayEach {
		limit = c.widest(limit) // units that do not fit a log are not booked
	}
	return c, limit, true
}

// Spans reports whether a bucket, which belongs to the rule, spans regions: only the bucket of the rule's own limit
// does, not the buckets of its candidate and ban.
func (c *Compiled) Spans(key limiter.Key) bool {
	return c.Global && c.Own(key)
}

// Own reports whether a bucket, which belongs to the rule, holds the rule's own limit.
func (c *Compiled) Own(key limiter.Key) bool {
	if c.Limit.PerPeriod {
		key, _, _ = key.Period()
	}
	return strings.HasSuffix(string(key), c.suffix)
}

// Exact returns the rule of a bucket that has a home region (SpanGlobalExact), nil for any other bucket. The rule's own
// limit and its ban have a home region, its candidate does not.
func (s *Set) Exact(key limiter.Key) *Compiled {
	id, ok := RuleID(key)
	if !ok {
		return nil
	}
	c := s.Get(id)
	if c == nil || !c.Exact || !strings.HasSuffix(string(key), c.suffix) && !strings.HasSuffix(string(key), c.banSuffix) {
		return nil
	}
	return c
}

// overridden returns the limit of a bucket of rule c after its override.
func (s *Set) overridden(o *override.OfRule, c *Compiled, key limiter.Key, limit limiter.Limit,
	now time.Time) limiter.Limit {
	facts := []byte(key[:len(key)-len(c.suffix)])
	if a, f := exactOverride(o, facts, now.UnixMilli()); f != nil {
		if a.Unlimited {
			return limit
		}
		return c.overridden(limit, f, now.UnixMilli())
	}
	if o.HasNetworks() || o.HasWildcards() {
		if b, err := s.FindBucket(c, BucketName(key), now); err == nil {
			return b.Limit
		}
	}
	return limit
}

// widest returns the largest of a limit and the limits of the rule's tiers.
func (c *Compiled) widest(limit limiter.Limit) limiter.Limit {
	for _, t := range c.Tiers {
		if !t.Unlimited && t.Limit.Count > limit.Count {
			limit = t.Limit
		}
	}
	return limit
}

// Divided calls yield with each rule whose limit is divided among regions and with its limits without overrides: its
// own, and the limits of its tiers.
func (s *Set) Divided(yield func(c *Compiled, limits []limiter.Limit)) {
	for c := range s.rules.all() {
		if !c.Shares {
			continue
		}
		limits := []limiter.Limit{c.Limit}
		for _, t := range c.Tiers {
			if !t.Unlimited {
				limits = append(limits, t.Limit)
			}
		}
		yield(c, limits)
	}
}
