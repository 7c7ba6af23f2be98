package api

import (
	"context"
	"slices"
	"strings"

	"sluice/rules"
)

// allProfiles is in order of name; the caller holds the lock.
func (b *book) allProfiles() []rules.Profile {
	list := make([]rules.Profile, 0, len(b.profiles))
	for _, p := range b.profiles {
		list = append(list, p.Clone())
	}
	slices.SortFunc(list, func(x, y rules.Profile) int { return strings.Compare(x.Name, y.Name) })
	return list
}

func (b *book) ListProfiles(context.Context) ([]rules.Profile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allProfiles(), b.err
}

// profile is the profile of a name and version; the caller holds the lock.
func (b *book) profile(name string, ifVersion int64) (rules.Profile, error) {
	p, ok := b.profiles[name]
	switch {
	case b.err != nil:
		return p, b.err
	case !ok:
		return p, rules.ErrNotFound
	case ifVersion != 0 && ifVersion != p.Version:
		return p, rules.ErrStale
	}
	return p, nil
}

func (b *book) GetProfile(_ context.Context, name string) (rules.Profile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.profile(name, 0)
}

func (b *book) CreateProfile(_ context.Context, _ rules.Actor, p rules.Profile) (rules.Profile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return p, b.err
	}
	if _, taken := b.profiles[p.Name]; taken {
		return p, rules.ErrNameTaken
	}
	if err := b.distinct(p); err != nil {
		return p, err
	}
	return b.putProfile(p, 1), nil
}

// distinct refuses a profile of a domain that another has; the caller holds the lock.
func (b *book) distinct(p rules.Profile) error {
	others := slices.DeleteFunc(b.allProfiles(), func(q rules.Profile) bool { return q.Name == p.Name })
	return rules.DistinctDomains(append(others, p))
}

func (b *book) putProfile(p rules.Profile, version int64) rules.Profile {
	if b.profiles == nil {
		b.profiles = map[string]rules.Profile{}
	}
	b.poolEdits++
	p.Version, p.UpdatedAt = version, b.now()
	if version == 1 {
		p.CreatedAt = b.now()
	}
	b.profiles[p.Name] = p
	return p
}

func (b *book) UpdateProfile(_ context.Context, _ rules.Actor, p rules.Profile,
	ifVersion int64) (rules.Profile, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, err := b.profile(p.Name, ifVersion)
	if err != nil {
		return p, err
	}
	if err := b.distinct(p); err != nil {
		return p, err
	}
	p.CreatedAt = old.CreatedAt
	return b.putProfile(p, old.Version+1), nil
}

func (b *book) DeleteProfile(_ context.Context, _ rules.Actor, name string, ifVersion int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.profile(name, ifVersion); err != nil {
		return err
	}
	b.poolEdits++
	delete(b.profiles, name)
	return nil
}

func (b *book) applyProfiles(p *rules.ProfilePlan) {
	for _, n := range p.Create {
		b.putProfile(n, 1)
	}
	for i := range p.Update {
		b.putProfile(p.Update[i].New, p.Update[i].Old.Version+1)
	}
	for i := range p.Delete {
		b.poolEdits++
		delete(b.profiles, p.Delete[i].Name)
	}
}
