package match

import (
	"fmt"
	"reflect"
	"slices"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// compileProfiles replaces the profiles of a set that is being built. A profile that did not
// change stays the same value, so that what was compiled from it can be kept.
func (s *Set) compileProfiles(list []profile.Profile) error {
	was := s.profiles
	s.profiles, s.domains = make(map[string]*profile.Profile, len(list)), map[string]*profile.Profile{}
	for i := range list {
		is := list[i]
		is.FoldRoutes = s.opt.FoldRoute
		p := was[is.Name]
		if p == nil || !reflect.DeepEqual(*p, is) {
			c := is.Clone()
			p = &c
			p.Normalize()
			if err := profile.Validate(p); err != nil {
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
func (c *Compiled) compilePolicy(p *rules.Parsed, pools map[string]*CompiledPool, opt *Options) error {
	r := &c.Rule
	c.SoftPercent, c.ElasticPercent = field.ValueOf(r.SoftPercent), field.ValueOf(r.ElasticPercent)
	c.Priority = rules.PriorityNormal
	if r.Priority != nil {
		c.Priority = *r.Priority
	}
	if r.Pool != nil {
		if c.Pool = pools[*r.Pool]; c.Pool == nil {
			return unknownPool()
		}
	}
	c.ChargeReport = r.ChargeOn == rules.ChargeOnReport
	c.ChargeExplicit = r.Addend == rules.AddendCharge
	c.Ban = r.Ban.Limit()
	c.Notify = slices.Sorted(slices.Values(r.NotifyPercent))
	c.RetryJitter, c.HotRaise = field.ValueOf(r.RetryJitterMS), field.ValueOf(r.HotRaisePercent)
	switch r.HotKeys {
	case rules.HotKeysLeased:
		c.Hot = limiter.HotLeased
	case rules.HotKeysSharded:
		c.Hot = limiter.HotSharded
	}
	c.Global, c.Shares = r.Span == rules.SpanGlobal && opt.Regions > 1, r.Span == rules.SpanShares && opt.Regions > 1
	if c.Global || c.Shares {
		c.SpanOf = r.ID
	}
	if c.Global {
		c.Guard = limiter.GuardOpen
		if r.Cold != nil && *r.Cold == rules.ColdShare {
			c.Guard = limiter.GuardShare
		}
	}
	if c.Exact = r.Span == rules.SpanGlobalExact && opt.Regions > 1; c.Exact {
		c.banSuffix = string(limiter.BanKey(limiter.Key(c.suffix)))
	}
	c.from, c.until = lifeSpan(r)
	c.when, c.Message = p.When, p.Message
	if c.when != nil {
		c.when.Normalize(opt.normalNetwork)
	}
	c.Period = r.Calendar.Period()
	c.former = compileFormer(r, c.Limit)
	if c.Candidate = p.Candidate; c.Candidate != nil {
		c.candidate = &candidate{candidateSuffix(r.ID, c.Candidate.Algorithm), r.CandidateFollows()}
	}
	return nil
}

func unknownPool() *field.ValidationError {
	return &field.ValidationError{Fields: []field.Problem{{Field: "pool", Message: "does not exist"}}}
}
