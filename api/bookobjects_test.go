package api

import (
	"context"
	"maps"
	"slices"

	"sluice/rules"
	"sluice/rules/profile"
)

// shelf has the objects of a kind of a book.
type shelf[T any] struct {
	*book
	kind *rules.Kind[T]
	list *map[string]T
	used func(name string) bool
}

func (b *book) shelfOfPools() shelf[rules.Pool] {
	return shelf[rules.Pool]{b, rules.PoolKind, &b.pools, func(name string) bool {
		return slices.ContainsFunc(b.stored, func(r rules.Rule) bool { return r.Pool != nil && *r.Pool == name })
	}}
}

func (b *book) shelfOfProfiles() shelf[profile.Profile] {
	return shelf[profile.Profile]{b, rules.ProfileKind, &b.profiles, func(string) bool { return false }}
}

// all is in order of name; the caller holds the lock.
func (f shelf[T]) all() []T {
	list := make([]T, 0, len(*f.list))
	for _, name := range slices.Sorted(maps.Keys(*f.list)) {
		t := (*f.list)[name]
		list = append(list, f.kind.Clone(&t))
	}
	return list
}

func (f shelf[T]) List(context.Context) ([]T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all(), f.err
}

// at is the object of a name and version; the caller holds the lock.
func (f shelf[T]) at(name string, ifVersion int64) (T, error) {
	t, ok := (*f.list)[name]
	switch {
	case f.err != nil:
		return t, f.err
	case !ok:
		return t, rules.ErrNotFound
	case ifVersion != 0 && ifVersion != f.kind.Version(&t):
		return t, rules.ErrStale
	}
	return t, nil
}

func (f shelf[T]) Get(_ context.Context, name string) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(name, 0)
}

func (f shelf[T]) Create(_ context.Context, _ rules.Actor, t T) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return t, f.err
	}
	if _, taken := (*f.list)[f.kind.Name(&t)]; taken {
		return t, rules.ErrNameTaken
	}
	if err := f.whole(t); err != nil {
		return t, err
	}
	return f.put(t, 1), nil
}

// whole refuses what all objects together may not be; the caller holds the lock.
func (f shelf[T]) whole(t T) error {
	if f.kind.Whole == nil {
		return nil
	}
	others := slices.DeleteFunc(f.all(), func(o T) bool { return f.kind.Name(&o) == f.kind.Name(&t) })
	return f.kind.Whole(append(others, t))
}

func (f shelf[T]) put(t T, version int64) T {
	if *f.list == nil {
		*f.list = map[string]T{}
	}
	f.edits++
	is := f.kind.Identity(&t)
	*is.Version, *is.UpdatedAt = version, f.now()
	if version == 1 {
		*is.CreatedAt = f.now()
	}
	(*f.list)[*is.Name] = t
	return t
}

func (f shelf[T]) Update(_ context.Context, _ rules.Actor, t T, ifVersion int64) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, err := f.at(f.kind.Name(&t), ifVersion)
	if err != nil {
		return t, err
	}
	if err := f.whole(t); err != nil {
		return t, err
	}
	*f.kind.Identity(&t).CreatedAt = *f.kind.Identity(&old).CreatedAt
	return f.put(t, f.kind.Version(&old)+1), nil
}

func (f shelf[T]) Delete(_ context.Context, _ rules.Actor, name string, ifVersion int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(name, ifVersion)
}

func (f shelf[T]) remove(name string, ifVersion int64) error {
	if _, err := f.at(name, ifVersion); err != nil {
		return err
	}
	if f.used(name) {
		return rules.ErrPoolUsed
	}
	f.edits++
	delete(*f.list, name)
	return nil
}

func (f shelf[T]) apply(p *rules.SectionPlan[T]) error {
	for _, t := range p.Create {
		f.put(t, 1)
	}
	for i := range p.Update {
		f.put(p.Update[i].New, f.kind.Version(&p.Update[i].Old)+1)
	}
	for i := range p.Delete {
		if err := f.remove(f.kind.Name(&p.Delete[i]), 0); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) PromoteRule(_ context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return rules.Rule{}, b.err
	}
	i := b.find(id)
	if i < 0 {
		return rules.Rule{}, rules.ErrNotFound
	}
	r := b.stored[i].Clone()
	if err := r.Promote(); err != nil {
		return r, err
	}
	return b.update("promote", actor, r, ifVersion)
}
