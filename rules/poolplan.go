package rules

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFileErrors bounds how many problems of one rules file are reported.
const MaxFileErrors = 100

// File is the content of a rules file.
type File struct {
	// Pools is nil if the file does not mention pools, which differs from an empty list.
	Pools []Pool
	Rules []Rule
}

// PoolPlan is the part of a Plan about pools. Each list is ordered by name.
type PoolPlan struct {
	Create []Pool     `json:"create"`
	Update []PoolEdit `json:"update"`
	Delete []Pool     `json:"delete"`
}

// PoolEdit is one pool before and after. New has the version of Old.
type PoolEdit struct {
	Old     Pool     `json:"old"`
	New     Pool     `json:"new"`
	Changes []Change `json:"changes"`
}

func (p *PoolPlan) empty() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// MakeFilePlan is MakePlan for rules and pools. If wanted does not mention pools, they stay
// unchanged, even with prune.
func MakeFilePlan(current, wanted File, prune bool) Plan {
	p := MakePlan(current.Rules, wanted.Rules, prune)
	if wanted.Pools == nil {
		return p
	}
	stored := make(map[string]*Pool, len(current.Pools))
	for i := range current.Pools {
		stored[current.Pools[i].Name] = &current.Pools[i]
	}
	for _, w := range wanted.Pools {
		c := stored[w.Name]
		delete(stored, w.Name)
		if c == nil {
			w.Version = 0
			p.Pools.Create = append(p.Pools.Create, w)
			continue
		}
		w.Version, w.CreatedAt, w.UpdatedAt = c.Version, c.CreatedAt, c.UpdatedAt
		if changes := DiffPool(c, &w); len(changes) > 0 {
			p.Pools.Update = append(p.Pools.Update, PoolEdit{Old: *c, New: w, Changes: changes})
		}
	}
	for _, name := range sortedKeys(stored) {
		if prune {
			p.Pools.Delete = append(p.Pools.Delete, *stored[name])
		}
	}
	slices.SortFunc(p.Pools.Create, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Pools.Update, func(a, b PoolEdit) int { return strings.Compare(a.New.Name, b.New.Name) })
	return p
}

// CheckPools refuses rules of a file that name a pool which neither the file nor the database has.
// The error is a *ValidationError.
func (f *File) CheckPools(stored []Pool) error {
	known := make(map[string]bool, len(f.Pools)+len(stored))
	for _, list := range [][]Pool{f.Pools, stored} {
		for i := range list {
			known[list[i].Name] = true
		}
	}
	var ps problems
	for i := range f.Rules {
		if p := f.Rules[i].Pool; p != nil && !known[*p] {
			ps.add(path("rules", i)+".pool", "does not exist")
		}
	}
	if len(ps) > 0 {
		return &ValidationError{Fields: ps}
	}
	return nil
}

// Summary describes a pool in one line.
func (p *Pool) Summary() string {
	return fmt.Sprintf("%d per %s, normal %d %%, low %d %%", p.Limit, WindowWords(p.WindowMS), p.NormalPercent,
		p.LowPercent)
}

// write formats the pools of a plan for a terminal.
func (p *PoolPlan) write(b *strings.Builder) {
	for i := range p.Create {
		fmt.Fprintf(b, "+ pool %s: %s\n", p.Create[i].Name, p.Create[i].Summary())
	}
	for i := range p.Update {
		fmt.Fprintf(b, "~ pool %s\n", p.Update[i].New.Name)
		for _, c := range p.Update[i].Changes {
			fmt.Fprintf(b, "    %s: %s -> %s\n", c.Field, JSONText(c.Old), JSONText(c.New))
		}
	}
	for i := range p.Delete {
		fmt.Fprintf(b, "- pool %s\n", p.Delete[i].Name)
	}
}
