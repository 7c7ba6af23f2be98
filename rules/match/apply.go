package match

import (
	"errors"
	"maps"
	"slices"

	"sluice/rules"
	"sluice/rules/profile"
)

// Delta describes the changes between two versions of the rules.
type Delta struct {
	// Changed holds the rules that are new or differ, active or not. Of two with one id the last
	// counts.
	Changed []rules.Rule
	// Removed holds the ids of deleted rules. An id that is also in Changed is not deleted.
	Removed []int64
	// Pools holds all pools. It is used only if PoolsChanged is true.
	Pools        []rules.Pool
	PoolsChanged bool
	// Profiles holds all profiles. It is used only if ProfilesChanged is true.
	Profiles        []profile.Profile
	ProfilesChanged bool
	// Version is the version after the change.
	Version int64
}

// rebuildPart is the fraction of changed rules, one in so many, above which rebuilding the whole
// index is cheaper than changing it rule by rule.
const rebuildPart = 16

// Apply returns the set that CompileSource would build from the active rules of s with d applied, with the overrides
// and options of s. It takes time in proportion to d: unchanged parts are shared with s, which is not modified and may
// be read at the same time. It returns the errors of CompileSource, ordered by rule id.
func (s *Set) Apply(d Delta) (*Set, error) {
	out := *s
	out.version = d.Version
	if d.PoolsChanged {
		if err := out.compilePools(d.Pools); err != nil {
			return nil, err
		}
		for name, p := range out.pools {
			if was := s.pools[name]; was != nil && was.Pool == p.Pool {
				out.pools[name] = was
			}
		}
	}
	if d.ProfilesChanged {
		if err := out.compileProfiles(d.Profiles); err != nil {
			return nil, err
		}
	}
	changed, err := out.compileDelta(s, &d)
	if err != nil {
		return nil, err
	}
	var drop, put []*Compiled
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		if was := s.Get(id); was != nil {
			drop = append(drop, was)
		}
		if is := changed[id]; is != nil {
			put = append(put, is)
		}
	}
	out.rules = s.rules.with(drop, put, compareRules)
	if (len(drop)+len(put))*rebuildPart > out.rules.len() {
		out.build()
	} else {
		out.reindex(drop, put)
	}
	out.countPatterns(drop, put)
	slices.SortFunc(drop, compareNames)
	slices.SortFunc(put, compareNames)
	out.names = s.names.with(drop, put, compareNames)
	if err := out.checkNames(put); err != nil {
		return nil, err
	}
	return &out, nil
}

// reindex removes the rules drop from the indexes and adds the rules put.
func (s *Set) reindex(drop, put []*Compiled) {
	s.index = s.index.change(drop, put)
	for _, c := range drop {
		if c.Rule.Descriptor != nil {
			s.entries = entriesWithout(s.entries, c)
			s.keys = countKeys(s.keys, c.Rule.Descriptor, -1, false)
		}
	}
	for _, c := range put {
		if c.Rule.Descriptor != nil {
			s.entries = entriesWith(s.entries, c, false)
			s.keys = countKeys(s.keys, c.Rule.Descriptor, 1, false)
		}
	}
}

// compileDelta compiles the rules that d changes in the set was, with the pools of s, by id. A
// deleted or inactive rule is nil.
func (s *Set) compileDelta(was *Set, d *Delta) (map[int64]*Compiled, error) {
	changed := make(map[int64]*Compiled, len(d.Changed)+len(d.Removed))
	errs := map[int64]error{}
	for _, id := range d.Removed {
		changed[id] = nil
	}
	last := make(map[int64]*rules.Rule, len(d.Changed))
	for i := range d.Changed {
		last[d.Changed[i].ID] = &d.Changed[i]
	}
	for id, r := range last {
		changed[id] = nil
		if r.IsActive {
			changed[id], errs[id] = s.compileRule(r)
		}
	}
	if d.PoolsChanged {
		for c := range was.rules.all() {
			if _, done := changed[c.Rule.ID]; done || c.Pool == nil || s.pools[c.Pool.Pool.Name] == c.Pool {
				continue
			}
			changed[c.Rule.ID], errs[c.Rule.ID] = s.compileRule(&c.Rule)
		}
	}
	var failed []error
	for _, id := range slices.Sorted(maps.Keys(errs)) {
		if err := errs[id]; err != nil && len(failed) < maxCompileErrors {
			failed = append(failed, err)
		}
	}
	return changed, errors.Join(failed...)
}
