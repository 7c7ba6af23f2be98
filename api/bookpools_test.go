package api

import (
	"context"
	"slices"
	"strings"

	"sluice/rules"
)

// allPools is in order of name; the caller holds the lock.
func (b *book) allPools() []rules.Pool {
	list := make([]rules.Pool, 0, len(b.pools))
	for _, p := range b.pools {
		list = append(list, p)
	}
	slices.SortFunc(list, func(x, y rules.Pool) int { return strings.Compare(x.Name, y.Name) })
	return list
}

func (b *book) ListPools(context.Context) ([]rules.Pool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allPools(), b.err
}

func (b *book) GetPool(_ context.Context, name string) (rules.Pool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.pools[name]
	if b.err == nil && !ok {
		return p, rules.ErrNotFound
	}
	return p, b.err
}

func (b *book) CreatePool(_ context.Context, _ rules.Actor, p rules.Pool) (rules.Pool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return p, b.err
	}
	if _, taken := b.pools[p.Name]; taken {
		return p, rules.ErrNameTaken
	}
	return b.putPool(p, 1), nil
}

func (b *book) putPool(p rules.Pool, version int64) rules.Pool {
	if b.pools == nil {
		b.pools = map[string]rules.Pool{}
	}
	b.poolEdits++
	p.Version, p.UpdatedAt = version, b.now()
	if version == 1 {
		p.CreatedAt = b.now()
	}
	b.pools[p.Name] = p
	return p
}

func (b *book) UpdatePool(_ context.Context, _ rules.Actor, p rules.Pool, ifVersion int64) (rules.Pool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.pools[p.Name]
	switch {
	case b.err != nil:
		return p, b.err
	case !ok:
		return p, rules.ErrNotFound
	case ifVersion != 0 && ifVersion != old.Version:
		return p, rules.ErrStale
	}
	p.CreatedAt = old.CreatedAt
	return b.putPool(p, old.Version+1), nil
}

func (b *book) DeletePool(_ context.Context, _ rules.Actor, name string, ifVersion int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.removePool(name, ifVersion)
}

func (b *book) removePool(name string, ifVersion int64) error {
	old, ok := b.pools[name]
	switch {
	case !ok:
		return rules.ErrNotFound
	case ifVersion != 0 && ifVersion != old.Version:
		return rules.ErrStale
	case slices.ContainsFunc(b.stored, func(r rules.Rule) bool { return r.Pool != nil && *r.Pool == name }):
		return rules.ErrPoolUsed
	}
	b.poolEdits++
	delete(b.pools, name)
	return nil
}

func (b *book) applyPools(p *rules.PoolPlan) error {
	for _, n := range p.Create {
		b.putPool(n, 1)
	}
	for i := range p.Update {
		b.putPool(p.Update[i].New, p.Update[i].Old.Version+1)
	}
	for _, d := range p.Delete {
		if err := b.removePool(d.Name, 0); err != nil {
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
