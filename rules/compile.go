package rules

import (
	"errors"
	"fmt"
	"slices"

	"sluice/limiter"
)

// Options are settings of a whole Set. The zero value is the default.
type Options struct {
	// IPv4Prefix is how many bits of an IPv4 address name its bucket, 1 to 32;
	// 0 means 32.
	IPv4Prefix int
	// IPv6Prefix is the same for IPv6, 1 to 128; 0 means 64, because one
	// subscriber usually holds a whole /64.
	IPv6Prefix int
	// ConditionFailed hears, during a match, of a rule whose condition could not
	// be evaluated and therefore counted as true. Nil hears nothing.
	ConditionFailed func(*Rule)
}

func (o Options) withDefaults() (Options, error) {
	if o.IPv4Prefix == 0 {
		o.IPv4Prefix = 32
	}
	if o.IPv6Prefix == 0 {
		o.IPv6Prefix = 64
	}
	if o.IPv4Prefix < 1 || o.IPv4Prefix > 32 {
		return o, fmt.Errorf("ipv4 prefix must be between 1 and 32, not %d", o.IPv4Prefix)
	}
	if o.IPv6Prefix < 1 || o.IPv6Prefix > 128 {
		return o, fmt.Errorf("ipv6 prefix must be between 1 and 128, not %d", o.IPv6Prefix)
	}
	return o, nil
}

// maxCompileErrors bounds how many bad rules one error of Compile names.
const maxCompileErrors = 10

// Compile is CompileSource for rules without pools.
func Compile(rs []Rule, version int64, opt Options) (*Set, error) {
	return CompileSource(Source{Rules: rs, Version: version}, opt)
}

// CompileSource builds the set of the active rules of src; inactive ones are left
// out, and no rules at all is legal. It keeps copies. Every rule must have an id
// and name of its own and be valid; the error names up to ten that are not, each
// wrapping its *ValidationError. A rule whose pool is not there is not valid either.
func CompileSource(src Source, opt Options) (*Set, error) {
	rs := src.Rules
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Set{version: src.Version, opt: opt, rules: make([]Compiled, 0, len(rs))}
	if err := s.compilePools(src.Pools); err != nil {
		return nil, err
	}
	var errs []error
	for i := range rs {
		if !rs[i].IsActive {
			continue
		}
		c, err := s.compileRule(&rs[i])
		if err != nil {
			errs = append(errs, err)
			if len(errs) == maxCompileErrors {
				break
			}
			continue
		}
		s.rules = append(s.rules, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(s.rules, func(a, b Compiled) int { return compareID(a.Rule.ID, b.Rule.ID) })
	if err := s.checkDistinct(); err != nil {
		return nil, err
	}
	s.index.build(s.rules)
	return s, nil
}

func (s *Set) compileRule(r *Rule) (Compiled, error) {
	c := Compiled{Rule: r.Clone()}
	c.Rule.Normalize()
	fail := func(err error) (Compiled, error) {
		return Compiled{}, fmt.Errorf("rule %q (id %d): %w", r.Name, r.ID, err)
	}
	if r.ID < 1 {
		return fail(errors.New("id must be 1 or greater"))
	}
	p, err := validate(&c.Rule)
	if err != nil {
		return fail(err)
	}
	c.Limit, c.facts, c.route = p.limit, p.facts, p.route
	c.Shadow = c.Rule.Mode == ModeShadow
	c.FailMode = c.Rule.FailMode
	c.suffix = keySuffix(r.ID, c.Limit.Algorithm)
	if err := c.compilePolicy(&p, s.pools); err != nil {
		return fail(err)
	}
	if len(c.facts) == 0 {
		c.globalKey = limiter.Key("{" + ScopeGlobal + "}" + c.suffix)
	}
	for _, f := range c.facts {
		if f.kind != factAttr {
			c.need |= 1 << f.kind
		}
	}
	return c, nil
}

// checkDistinct refuses two rules of one id or name: they would share buckets,
// or could not be told apart in answers.
func (s *Set) checkDistinct() error {
	names := make(map[string]int64, len(s.rules))
	for i := range s.rules {
		r := &s.rules[i].Rule
		if i > 0 && s.rules[i-1].Rule.ID == r.ID {
			return fmt.Errorf("rules %q and %q have the same id %d", s.rules[i-1].Rule.Name, r.Name, r.ID)
		}
		if other, taken := names[r.Name]; taken {
			return fmt.Errorf("rules with ids %d and %d have the same name %q", other, r.ID, r.Name)
		}
		names[r.Name] = r.ID
	}
	return nil
}
