package rules

import (
	"fmt"
	"slices"

	"sluice/limiter"
)

// compilePools builds the set's pools.
func (s *Set) compilePools(pools []Pool) error {
	s.pools = make(map[string]*CompiledPool, len(pools))
	for i := range pools {
		p := pools[i]
		p.Normalize()
		if err := ValidatePool(&p); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
		if s.pools[p.Name] != nil {
			return fmt.Errorf("two pools have the name %q", p.Name)
		}
		s.pools[p.Name] = compilePool(p)
	}
	return nil
}

// compilePolicy fills in the policy fields.
func (c *Compiled) compilePolicy(p *parts, pools map[string]*CompiledPool, opt *Options) error {
	r := &c.Rule
	c.Throttle = r.Throttle
	c.SoftPercent, c.ElasticPercent = valueOf(r.SoftPercent), valueOf(r.ElasticPercent)
	c.Priority = PriorityNormal
	if r.Priority != nil {
		c.Priority = *r.Priority
	}
	if r.Pool != nil {
		if c.Pool = pools[*r.Pool]; c.Pool == nil {
			return unknownPool()
		}
	}
	c.ChargeReport = r.ChargeOn == ChargeOnReport
	c.ChargeExplicit = r.Addend == AddendCharge
	c.Unlimited, c.Quota, c.Replaces = r.Unlimited, r.Quota, r.Replaces
	c.Defer = r.Defer
	c.Ban = r.Ban.limit()
	if r.Message != nil {
		var err error
		if c.Message, err = ParseMessage(*r.Message); err != nil {
			return &ValidationError{Fields: problems{{Field: "message", Message: err.Error()}}}
		}
		c.Message.route = valueOf(r.Route)
	}
	c.LogPercent, c.Notify = r.LogPercent, slices.Sorted(slices.Values(r.NotifyPercent))
	c.RetryJitter, c.HotRaise = valueOf(r.RetryJitterMS), valueOf(r.HotRaisePercent)
	switch r.HotKeys {
	case HotKeysLeased:
		c.Hot = limiter.HotLeased
	case HotKeysSharded:
		c.Hot = limiter.HotSharded
	}
	c.Global, c.Shares = r.Span == SpanGlobal && opt.Regions > 1, r.Span == SpanShares && opt.Regions > 1
	if c.Exact = r.Span == SpanGlobalExact && opt.Regions > 1; c.Exact {
		c.banSuffix = string(limiter.BanKey(limiter.Key(c.suffix)))
	}
	c.from, c.until = lifeSpan(r)
	c.tiers, c.when = p.tiers, p.when
	if c.when != nil {
		c.when.normalize(*opt)
	}
	c.Period = r.Calendar.Period()
	c.setTimed(p.schedule, p.calendar)
	c.former = compileFormer(r, c.Limit.Algorithm)
	if c.Candidate = p.candidate; c.Candidate != nil {
		c.candidate = &candidate{candidateSuffix(r.ID, c.Candidate.Algorithm), r.candidateFollows()}
	}
	return nil
}

// setTimed sets the phases of a rule with a schedule or a calendar. Limit and tiers are set already.
func (c *Compiled) setTimed(s *schedule, cal *calendar) {
	if s != nil || cal != nil {
		c.timed = &timed{schedule: s, calendar: cal, own: c.Limit, tiers: c.tiers}
	}
}

func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func unknownPool() *ValidationError {
	return &ValidationError{Fields: []FieldError{{Field: "pool", Message: "does not exist"}}}
}
