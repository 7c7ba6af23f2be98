package webtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/web"
)

// Overrides are exceptions from rules in memory. Err, if not nil, is what every
// call fails with.
type Overrides struct {
	rules *Rules
	List  []rules.Override
	Err   error
	// log receives an entry for each change; last is the newest ID.
	log  *Log
	last int64
}

// note adds an entry about a change to the audit log.
func (f *Overrides) note(actor rules.Actor, action string, was, is *rules.Override) {
	o := is
	if o == nil {
		o = was
	}
	r, _ := f.rule(o.RuleID)
	f.log.add(actor, action, "rule", r.ID, r.Name, map[string]any{"was": was, "is": is, "undoes": actor.Undoes})
}

func sampleOverrides(from *Rules) *Overrides {
	f := &Overrides{rules: from}
	if len(from.List) == 0 {
		return f
	}
	soon := Now.Add(40 * time.Hour)
	for _, o := range []rules.Override{
		{Key: "user:acme-*", Limit: new(int64(2000)), Reason: "The contract of Acme, until they move to their own keys."},
		{Key: "user:42", Blocked: true, Reason: "Ticket 8123: card testing.", ExpiresAt: &soon},
		{Key: "user:monitoring", Unlimited: true, Reason: "Our own probes."},
	} {
		o.RuleID = 1
		if _, err := f.CreateOverride(context.Background(), rules.Actor{Kind: "user", Name: "ada"}, o,
			match.Options{}); err != nil {
			panic(err) // canned data is valid
		}
	}
	return f
}

func (f *Overrides) rule(id int64) (*rules.Rule, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	for i := range f.rules.List {
		if f.rules.List[i].ID == id {
			return &f.rules.List[i], nil
		}
	}
	return nil, rules.ErrNotFound
}

// ListOverrides implements kit.Overrides.
func (f *Overrides) ListOverrides(_ context.Context, q rules.OverrideQuery) (rules.OverridePage, error) {
	var p rules.OverridePage
	for i := range f.List {
		o := &f.List[i]
		text := strings.ToLower(o.Key + "\n" + o.Reason)
		found := strings.Contains(text, strings.ToLower(q.Text)) || slices.Contains(q.Around, o.Match)
		if q.Match != "" && (o.Match != q.Match || o.Prefix != q.Prefix) {
			continue
		}
		if !q.AllRules && o.RuleID != q.RuleID || o.ID <= q.AfterID || !found || !q.IncludeExpired && o.Expired(Now) {
			continue
		}
		if p.More = len(p.Overrides) == q.PageSize; p.More {
			break
		}
		p.Overrides = append(p.Overrides, *o)
	}
	return p, f.Err
}

// GetOverride implements kit.Overrides.
func (f *Overrides) GetOverride(_ context.Context, ruleID, id int64) (rules.Override, error) {
	if f.Err != nil {
		return rules.Override{}, f.Err
	}
	for i := range f.List {
		if f.List[i].RuleID == ruleID && f.List[i].ID == id {
			return f.List[i], nil
		}
	}
	return rules.Override{}, rules.ErrNotFound
}

// CreateOverride implements kit.Overrides.
func (f *Overrides) CreateOverride(_ context.Context, actor rules.Actor, o rules.Override,
	opt match.Options) (rules.Override, error) {
	r, err := f.rule(o.RuleID)
	if err != nil {
		return o, err
	}
	if err := match.ResolveOverride(&o, r, opt, Now); err != nil {
		return o, err
	}
	for i := range f.List {
		if f.List[i].RuleID == o.RuleID && f.List[i].Key == o.Key {
			return o, rules.ErrOverrideExists
		}
	}
	f.last++
	o.ID, o.Version, o.CreatedAt, o.UpdatedAt = f.last, 1, Now.Add(-70*time.Hour), Now.Add(-70*time.Hour)
	f.List = append(f.List, o)
	f.note(actor, "override_create", nil, &o)
	return o, nil
}

// UpdateOverride implements kit.Overrides.
func (f *Overrides) UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64,
	opt match.Options) (rules.Override, error) {
	was, err := f.GetOverride(ctx, o.RuleID, o.ID)
	if err != nil {
		return o, err
	}
	if was.Version != ifVersion {
		return o, rules.ErrStale
	}
	r, err := f.rule(o.RuleID)
	if err != nil {
		return o, err
	}
	if o.Key == "" {
		o.Key = was.Key
	}
	if err := match.ResolveOverride(&o, r, opt, Now); err != nil {
		return o, err
	}
	o.Version, o.CreatedAt, o.UpdatedAt = was.Version+1, was.CreatedAt, Now
	for i := range f.List {
		if f.List[i].ID == o.ID {
			f.List[i] = o
		}
	}
	f.note(actor, "override_update", &was, &o)
	return o, nil
}

// DeleteOverride implements kit.Overrides.
func (f *Overrides) DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error {
	was, err := f.GetOverride(ctx, ruleID, id)
	if err != nil {
		return err
	}
	if was.Version != ifVersion {
		return rules.ErrStale
	}
	f.List = slices.DeleteFunc(f.List, func(o rules.Override) bool { return o.ID == id })
	f.note(actor, "override_delete", &was, nil)
	return nil
}

// ImportOverrides implements kit.Overrides; it knows creation only.
func (f *Overrides) ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport,
	opt match.Options) (rules.OverrideImported, error) {
	out := rules.OverrideImported{DryRun: in.DryRun}
	if f.Err != nil {
		return out, f.Err
	}
	if out.Plan = fmt.Sprint(len(f.List)); in.Expect != "" && in.Expect != out.Plan {
		return out, rules.ErrStale
	}
	for _, item := range in.Items {
		o := item.Override
		o.RuleID = in.RuleID
		if !in.DryRun {
			if _, err := f.CreateOverride(ctx, actor, o, opt); err != nil {
				return out, err
			}
		}
		out.Created++
	}
	return out, nil
}

func samplePools() *Objects[rules.Pool] {
	f := &Objects[rules.Pool]{kind: rules.PoolKind, Used: map[string]bool{"shop": true}}
	for _, p := range []rules.Pool{
		{Name: "shop", Description: "What the shop's database takes.", Limit: 120_000, WindowMS: 60_000, NormalPercent: 80,
			LowPercent: 50},
		{Name: "search", Limit: 9000, WindowMS: 1000, NormalPercent: 90, LowPercent: 30},
	} {
		p.Version, p.CreatedAt, p.UpdatedAt = 1, Now.Add(-300*time.Hour), Now.Add(-30*time.Hour)
		f.List = append(f.List, p)
	}
	return f
}

// poolState is the state of a pool.
func (w *World) poolState(_ context.Context, p *match.CompiledPool) web.PoolState {
	s := web.PoolState{Capacity: p.Pool.Limit}
	if w.Pools.Err != nil {
		return s
	}
	s.Used = new(p.Pool.Limit * 64 / 100)
	if p.Pool.Name == "search" {
		s.Load, s.LoadFor = new(.87), 42*time.Second
	}
	return s
}
