package match

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/route"
	"sluice/rules/scope"
)

// Options are settings of a whole Set. The zero value is the default.
type Options struct {
	// IPv4Prefix is the number of bits of an IPv4 address that identify its bucket, 1 to 32; 0
	// means 32.
	IPv4Prefix int
	// IPv6Prefix is the same for IPv6, 1 to 128; 0 means 64, because one subscriber usually has a
	// whole /64.
	IPv6Prefix int
	// NAT64 are the prefixes under which a translator shows IPv4 clients (RFC 6052), as ParseNAT64 returns them: an
	// address under one counts as the IPv4 address inside. Nil means 64:ff9b::/96, an empty list none.
	NAT64 []netip.Prefix
	// FoldRoute compares routes without regard to the case of ASCII letters. Keys and conditions then have the path in
	// lower case.
	FoldRoute bool
	// Regions is the number of regions. Below 2 no limit spans regions, whatever the rule says.
	Regions int
	// ConditionFailed is called, during a match, for a rule whose condition could not be evaluated
	// and therefore counted as true. Nil disables it.
	ConditionFailed func(*rules.Rule)
	// ConditionTook is called with the duration of each evaluation of a condition, by the clock
	// Now. Nil disables it; without a clock nothing is measured.
	ConditionTook func(time.Duration)
	Now           func() time.Time
}

const defaultIPv4Prefix, defaultIPv6Prefix = 32, 64

func (o Options) withDefaults() (Options, error) {
	o.IPv4Prefix = cmp.Or(o.IPv4Prefix, defaultIPv4Prefix)
	o.IPv6Prefix = cmp.Or(o.IPv6Prefix, defaultIPv6Prefix)
	if o.IPv4Prefix < 1 || o.IPv4Prefix > 32 {
		return o, fmt.Errorf("ipv4 prefix must be between 1 and 32, not %d", o.IPv4Prefix)
	}
	if o.IPv6Prefix < 1 || o.IPv6Prefix > 128 {
		return o, fmt.Errorf("ipv6 prefix must be between 1 and 128, not %d", o.IPv6Prefix)
	}
	return o, nil
}

// maxCompileErrors bounds how many invalid rules one error of Compile lists.
const maxCompileErrors = 10

// Compile is CompileSource for rules without pools.
func Compile(rs []rules.Rule, version int64, opt Options) (*Set, error) {
	return CompileSource(rules.Source{Rules: rs, Version: version}, opt)
}

// CompileSource builds the set of the active rules of src. Inactive rules are left out, and no
// rules at all is legal. It keeps copies. Every rule must be valid and have a unique id and name;
// the error lists up to ten that are not, each wrapping its *field.ValidationError. A rule whose pool
// does not exist is not valid either.
func CompileSource(src rules.Source, opt Options) (*Set, error) {
	rs := src.Rules
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Set{version: src.Version, opt: opt}
	if err := s.compilePools(src.Pools); err != nil {
		return nil, err
	}
	if err := s.compileProfiles(src.Profiles); err != nil {
		return nil, err
	}
	var errs []error
	compiled := make([]*Compiled, 0, len(rs))
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
		compiled = append(compiled, c)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortStableFunc(compiled, compareRules)
	for i := 1; i < len(compiled); i++ {
		if a, b := &compiled[i-1].Rule, &compiled[i].Rule; a.ID == b.ID {
			return nil, fmt.Errorf("rules %q and %q have the same id %d", a.Name, b.Name, a.ID)
		}
	}
	s.rules = s.rules.with(nil, compiled, compareRules)
	s.countPatterns(nil, compiled)
	slices.SortFunc(compiled, compareNames)
	s.names = s.names.with(nil, compiled, compareNames)
	if err := s.checkNames(compiled); err != nil {
		return nil, err
	}
	s.build()
	return s, nil
}

// build indexes all rules.
func (s *Set) build() {
	s.index.build(&s.rules)
	s.entries, s.keys = byEntries{}, nil
	for c := range s.rules.all() {
		if c.Rule.Descriptor != nil {
			s.entries = entriesWith(s.entries, c, true)
			s.keys = countKeys(s.keys, c.Rule.Descriptor, 1, true)
		}
	}
}

func (s *Set) compileRule(r *rules.Rule) (*Compiled, error) {
	c := &Compiled{Rule: *r}
	field.Detach(reflect.ValueOf(&c.Rule).Elem()) // Clone would need its own memory
	c.Rule.Normalize()
	fail := func(err error) (*Compiled, error) {
		return nil, fmt.Errorf("rule %q (id %d): %w", r.Name, r.ID, err)
	}
	if r.ID < 1 {
		return fail(errors.New("id must be 1 or greater"))
	}
	p, err := rules.Parse(&c.Rule)
	if err != nil {
		return fail(err)
	}
	c.Limits, c.facts, c.route, c.host = p.Limits, p.Facts, p.Route, p.Host
	if s.opt.FoldRoute && c.route != nil {
		folded := c.route.Fold()
		c.route, c.path = &folded, route.Fold(*c.Rule.Route)
	} else if c.route != nil {
		c.path = *c.Rule.Route
	}
	c.varies = c.Vary()
	c.Shadow = c.Rule.Mode == rules.ModeShadow
	c.replaces = len(c.Rule.Replaces) > 0 && !c.Shadow && c.Rule.Descriptor == nil
	c.suffix = keySuffix(r.ID, c.Limit.Algorithm)
	if err := c.compilePolicy(&p, s.pools, &s.opt); err != nil {
		return fail(err)
	}
	if len(c.facts) == 0 && c.Rule.Descriptor == nil {
		c.globalKey = limiter.Key("{" + scope.Global + "}" + c.suffix)
	}
	for _, f := range c.facts {
		c.need |= 1 << f.Kind
	}
	return c, nil
}

// compareRules orders rules by id, compareNames by name.
func compareRules(a, b *Compiled) int { return cmp.Compare(a.Rule.ID, b.Rule.ID) }

func compareNames(a, b *Compiled) int {
	return cmp.Or(strings.Compare(a.Rule.Name, b.Rule.Name), compareRules(a, b))
}

// checkNames refuses a set in which one of the given rules, ordered by name, has the name of
// another rule: answers could not distinguish them. The error is about the first rule, by id,
// whose name an earlier one has.
func (s *Set) checkNames(some []*Compiled) error {
	var first, second *rules.Rule
	for i, c := range some {
		name := c.Rule.Name
		if i > 0 && some[i-1].Rule.Name == name {
			continue
		}
		var holders []*rules.Rule
		for c := range s.names.from(func(c *Compiled) bool { return c.Rule.Name < name }) {
			if c.Rule.Name != name || len(holders) == 2 {
				break
			}
			holders = append(holders, &c.Rule)
		}
		if len(holders) == 2 && (second == nil || holders[1].ID < second.ID) {
			first, second = holders[0], holders[1]
		}
	}
	if second == nil {
		return nil
	}
	return fmt.Errorf("rules with ids %d and %d have the same name %q", first.ID, second.ID, second.Name)
}
