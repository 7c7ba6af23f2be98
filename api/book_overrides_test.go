package api

import (
	"context"
	"strings"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

var (
	_ OverrideReader = (*book)(nil)
	_ OverrideWriter = (*book)(nil)
)

// loadOverrides compiles the overrides as the app does.
func (b *book) loadOverrides() *override.Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := override.New().Edit()
	for _, o := range b.overrides {
		e.Add(match.OverrideRow(&o))
	}
	return e.Done(1, b.now().UnixMilli())
}

func (b *book) ListOverrides(_ context.Context, q rules.OverrideQuery) (rules.OverridePage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p rules.OverridePage
	for _, o := range b.overrides {
		if o.RuleID != q.RuleID || o.ID <= q.AfterID || q.Text != "" && !strings.Contains(o.Key+o.Reason, q.Text) ||
			q.Match != "" && (q.Match != o.Match || q.Prefix != o.Prefix) || !q.IncludeExpired && o.Expired(b.now()) {
			continue
		}
		if len(p.Overrides) == q.PageSize {
			p.More = true
			break
		}
		p.Overrides = append(p.Overrides, o)
	}
	return p, b.err
}

func (b *book) findOverride(rule, id int64) int {
	for i := range b.overrides {
		if b.overrides[i].RuleID == rule && b.overrides[i].ID == id {
			return i
		}
	}
	return -1
}

func (b *book) GetOverride(_ context.Context, rule, id int64) (rules.Override, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.findOverride(rule, id)
	if i < 0 || b.err != nil {
		return rules.Override{}, orNotFound(b.err)
	}
	return b.overrides[i], nil
}

func orNotFound(err error) error {
	if err == nil {
		return rules.ErrNotFound
	}
	return err
}

// resolve judges an override against its rule.
func (b *book) resolve(o *rules.Override, opt match.Options) error {
	i := b.find(o.RuleID)
	if i < 0 || b.err != nil {
		return orNotFound(b.err)
	}
	return match.ResolveOverride(o, &b.stored[i], opt, b.now())
}

func (b *book) CreateOverride(_ context.Context, _ rules.Actor, o rules.Override, opt match.Options) (rules.Override,
	error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.resolve(&o, opt); err != nil {
		return o, err
	}
	for _, other := range b.overrides {
		if other.RuleID == o.RuleID && other.Match == o.Match && other.Prefix == o.Prefix {
			return o, rules.ErrOverrideExists
		}
	}
	o.BeginCalendar(nil, &b.stored[b.find(o.RuleID)], b.now())
	b.lastOverride++
	o.ID, o.Version, o.CreatedAt, o.UpdatedAt = b.lastOverride, 1, b.now(), b.now()
	b.overrides = append(b.overrides, o)
	return o, nil
}

func (b *book) UpdateOverride(_ context.Context, _ rules.Actor, o rules.Override, ifVersion int64,
	opt match.Options) (rules.Override, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.findOverride(o.RuleID, o.ID)
	if i < 0 || b.err != nil {
		return o, orNotFound(b.err)
	}
	was := b.overrides[i]
	if ifVersion != 0 && ifVersion != was.Version {
		return o, rules.ErrStale
	}
	if o.Key == "" {
		o.Key = was.Key
	}
	if err := b.resolve(&o, opt); err != nil {
		return o, err
	}
	o.BeginCalendar(&was, &b.stored[b.find(o.RuleID)], b.now())
	o.Version, o.CreatedAt, o.UpdatedAt = was.Version+1, was.CreatedAt, b.now()
	b.overrides[i] = o
	return o, nil
}

func (b *book) DeleteOverride(_ context.Context, _ rules.Actor, rule, id, ifVersion int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.findOverride(rule, id)
	if i < 0 || b.err != nil {
		return orNotFound(b.err)
	}
	if ifVersion != 0 && ifVersion != b.overrides[i].Version {
		return rules.ErrStale
	}
	b.overrides = append(b.overrides[:i:i], b.overrides[i+1:]...)
	return nil
}

// ImportOverrides only adds: what an import does is the database's to test.
func (b *book) ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport,
	opt match.Options) (rules.OverrideImported, error) {
	done := rules.OverrideImported{DryRun: in.DryRun}
	for i := range in.Items {
		o := in.Items[i].Override
		o.RuleID = in.RuleID
		done.Created++
		if in.DryRun {
			continue
		}
		if _, err := b.CreateOverride(ctx, actor, o, opt); err != nil {
			return done, err
		}
	}
	return done, nil
}
