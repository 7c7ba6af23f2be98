package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/quantity"
)

// MaxFileErrors bounds how many problems of one rules file are reported.
const MaxFileErrors = 100

// File is the content of a rules file.
type File struct {
	// Pools and Profiles are nil if the file does not mention them, which differs from an empty
	// list.
	Pools    []Pool
	Profiles []profile.Profile
	Rules    []Rule
}

// The parts of a Plan about pools and profiles.
type (
	// PoolPlan is the part about pools.
	PoolPlan = SectionPlan[Pool]
	// PoolEdit is an update of a pool.
	PoolEdit = SectionEdit[Pool]
	// ProfilePlan is the part about profiles.
	ProfilePlan = SectionPlan[profile.Profile]
	// ProfileEdit is an update of a profile.
	ProfileEdit = SectionEdit[profile.Profile]
)

// SectionPlan is the part of a Plan about the objects of one section of a file, which are
// identified by their names. Each list is ordered by name.
type SectionPlan[T any] struct {
	Create []T              `json:"create"`
	Update []SectionEdit[T] `json:"update"`
	Delete []T              `json:"delete"`
}

// SectionEdit is one object before and after. New has the version of Old.
type SectionEdit[T any] struct {
	Old     T              `json:"old"`
	New     T              `json:"new"`
	Changes []field.Change `json:"changes"`
}

func noPlan[T any]() SectionPlan[T] {
	return SectionPlan[T]{Create: []T{}, Update: []SectionEdit[T]{}, Delete: []T{}}
}

func (p *SectionPlan[T]) empty() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// MakeFilePlan is MakePlan for rules, pools and profiles. Pools and profiles that wanted does not
// mention stay unchanged, even with prune.
func MakeFilePlan(current, wanted File, prune bool) Plan {
	p := MakePlan(current.Rules, wanted.Rules, prune)
	p.Pools = PoolKind.plan(current.Pools, wanted.Pools, prune)
	p.Profiles = ProfileKind.plan(current.Profiles, wanted.Profiles, prune)
	return p
}

// plan compares the stored objects of a section with the wanted ones. If wanted is nil, all stay.
func (k *Kind[T]) plan(current, wanted []T, prune bool) SectionPlan[T] {
	p := noPlan[T]()
	if wanted == nil {
		return p
	}
	stored := make(map[string]*T, len(current))
	for i := range current {
		stored[k.Name(&current[i])] = &current[i]
	}
	for i := range wanted {
		w := wanted[i]
		is := k.Identity(&w)
		c := stored[*is.Name]
		delete(stored, *is.Name)
		if c == nil {
			*is.Version = 0
			p.Create = append(p.Create, w)
			continue
		}
		was := k.Identity(c)
		*is.Version, *is.CreatedAt, *is.UpdatedAt = *was.Version, *was.CreatedAt, *was.UpdatedAt
		if changes := k.Diff(c, &w); len(changes) > 0 {
			p.Update = append(p.Update, SectionEdit[T]{Old: *c, New: w, Changes: changes})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if prune {
			p.Delete = append(p.Delete, *stored[name])
		}
	}
	slices.SortFunc(p.Create, func(a, b T) int { return strings.Compare(k.Name(&a), k.Name(&b)) })
	slices.SortFunc(p.Update, func(a, b SectionEdit[T]) int { return strings.Compare(k.Name(&a.New), k.Name(&b.New)) })
	return p
}

// CheckPools refuses rules of a file that name a pool which neither the file nor the database has.
// The error is a *field.ValidationError.
func (f *File) CheckPools(stored []Pool) error {
	known := make(map[string]bool, len(f.Pools)+len(stored))
	for _, list := range [][]Pool{f.Pools, stored} {
		for i := range list {
			known[list[i].Name] = true
		}
	}
	var ps field.Problems
	for i := range f.Rules {
		if p := f.Rules[i].Pool; p != nil && !known[*p] {
			ps.Add(field.Path("rules", i)+".pool", "does not exist")
		}
	}
	if len(ps) > 0 {
		return &field.ValidationError{Fields: ps}
	}
	return nil
}

// Summary describes a pool in one line.
func (p *Pool) Summary() string {
	text := quantity.Amount(p.Limit) + " per " + quantity.Period(p.WindowMS) + ", normal " +
		quantity.Percent(p.NormalPercent) + ", low " + quantity.Percent(p.LowPercent)
	if p.Shed {
		text += ", sheds"
	}
	return text
}

// writeSection formats the plan of a section for a terminal.
func writeSection[T any](b *strings.Builder, k *Kind[T], p *SectionPlan[T], summary func(*T) string) {
	for i := range p.Create {
		fmt.Fprintf(b, "+ %s %s: %s\n", k.Noun, k.Name(&p.Create[i]), summary(&p.Create[i]))
	}
	for i := range p.Update {
		fmt.Fprintf(b, "~ %s %s\n", k.Noun, k.Name(&p.Update[i].New))
		for _, c := range p.Update[i].Changes {
			fmt.Fprintf(b, "    %s: %s -> %s\n", c.Field, field.JSONText(c.Old), field.JSONText(c.New))
		}
	}
	for i := range p.Delete {
		fmt.Fprintf(b, "- %s %s\n", k.Noun, k.Name(&p.Delete[i]))
	}
}
