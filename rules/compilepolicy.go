package rules

import (
	"fmt"
	"reflect"
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

// compileProfiles replaces the profiles of a set that is being built. A profile that did not
// change stays the same value, so that what was compiled from it can be kept.
func (s *Set) compileProfiles(list []Profile) error {
	was := s.profiles
	s.profiles, s.domains = make(map[string]*Profile, len(list)), map[string]*Profile{}
	for i := range list {
		p := was[list[i].Name]
		if p == nil || !reflect.DeepEqual(*p, list[i]) {
			c := list[i].Clone()
			p = &c
			p.Normalize()
			if err := ValidateProfile(p); err != nil {
				return fmt.Errorf("profile %q: %w", p.Name, err)
			}
		}
		if s.profiles[p.Name] != nil {
			return fmt.Errorf("two profiles have the name %q", p.Name)
		}
		s.profiles[p.Name] = p
		if p.Domain == "" {
			continue
		}
		if other := s.domains[p.Domain]; other != nil {
			return fmt.Errorf("the profiles %q and %q have the domain %q", other.Name, p.Name, p.Domain)
		}
		s.domains[p.Domain] = p
	}
	return nil
}

// compilePolicy fills in the policy fields.
func (c *Compiled) compilePolicy(p *Parsed, pools map[string]*CompiledPool, opt *Options) error {
	r := &c.Rule
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
	c.Ban = r.Ban.Limit()
	c.Notify = slices.Sorted(slices.Values(r.NotifyPercent))
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
	c.when, c.Message = p.When, p.Message
	if c.when != nil {
		c.when.Normalize(opt.normalNetwork)
	}
	c.Period = r.Calendar.Period()
	c.former = compileFormer(r, c.Limit.Algorithm)
	if c.Candidate = p.Candidate; c.Candidate != nil {
		c.candidate = &candidate{candidateSuffix(r.ID, c.Candidate.Algorithm), r.candidateFollows()}
	}
	return nil
}

func unknownPool() *ValidationError {
	return &ValidationError{Fields: []FieldError{{Field: "pool", Message: "does not exist"}}}
}
