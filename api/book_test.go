package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/profile"
)

// book is a rule database in memory, with the promises of the real one.
type book struct {
	mu        sync.Mutex
	now       func() time.Time
	last      int64
	stored    []rules.Rule // in order of id
	revisions []rules.Revision
	// overrides in order of id
	overrides    []rules.Override
	lastOverride int64
	pools        map[string]rules.Pool
	edits        int64 // of pools and profiles
	profiles     map[string]profile.Profile
	webhooks     map[string]alerts.Webhook
	deliveries   []alerts.Delivery // oldest first
	lookUps      int               // of names of rules
	err          error             // answered by everything while set
	beforeUpd    func()            // called once, before the next change looks at versions
}

var (
	_ RuleReader  = (*book)(nil)
	_ RuleWriter  = (*book)(nil)
	_ RuleHistory = (*book)(nil)
)

// source is what a set is compiled from.
func (b *book) source() rules.Source {
	src := rules.Source{Rules: b.all()}
	b.mu.Lock()
	defer b.mu.Unlock()
	src.Pools, src.Profiles = b.shelfOfPools().all(), b.shelfOfProfiles().all()
	src.Version = int64(len(b.revisions)) + b.edits
	return src
}

func (b *book) all() []rules.Rule {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]rules.Rule(nil), b.stored...)
}

// interrupt lets a colleague's change come first.
func (b *book) interrupt() {
	if f := b.beforeUpd; f != nil {
		b.beforeUpd = nil
		f()
	}
}

func (b *book) find(id int64) int {
	for i := range b.stored {
		if b.stored[i].ID == id {
			return i
		}
	}
	return -1
}

func (b *book) named(name string, other int64) bool {
	for i := range b.stored {
		if b.stored[i].Name == name && b.stored[i].ID != other {
			return true
		}
	}
	return false
}

func (b *book) record(action string, actor rules.Actor, old *rules.Rule, r rules.Rule) {
	b.revisions = append([]rules.Revision{{
		Version: r.Version, Action: action, Actor: actor, Reason: actor.Reason, At: b.now(), Rule: r,
		Changes: rules.Diff(old, &r),
	}}, b.revisions...)
}

func (b *book) ListRules(_ context.Context, q rules.Query) (rules.Page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p rules.Page
	for _, r := range b.stored {
		if r.ID <= q.AfterID || !q.Selects(&r) {
			continue
		}
		if len(p.Rules) == q.PageSize {
			p.More = true
			break
		}
		p.Rules = append(p.Rules, r)
	}
	return p, b.err
}

func (b *book) GetRule(_ context.Context, id int64) (rules.Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return rules.Rule{}, b.err
	}
	i := b.find(id)
	if i < 0 {
		return rules.Rule{}, rules.ErrNotFound
	}
	return b.stored[i].Clone(), nil
}

func (b *book) CreateRule(_ context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return r, b.err
	}
	return b.create("create", actor, r)
}

func (b *book) create(action string, actor rules.Actor, r rules.Rule) (rules.Rule, error) {
	if b.named(r.Name, 0) {
		return r, rules.ErrNameTaken
	}
	b.last++
	r.Normalize()
	r.ID, r.Version, r.CreatedAt, r.UpdatedAt = b.last, 1, b.now(), b.now()
	b.stored = append(b.stored, r)
	b.record(action, actor, nil, r)
	return r, nil
}

func (b *book) UpdateRule(_ context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error) {
	b.interrupt()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return r, b.err
	}
	return b.update("update", actor, r, ifVersion)
}

func (b *book) update(action string, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error) {
	i := b.find(r.ID)
	if i < 0 {
		return r, rules.ErrNotFound
	}
	old := b.stored[i]
	if ifVersion != 0 && old.Version != ifVersion {
		return r, rules.ErrStale
	}
	if b.named(r.Name, r.ID) {
		return r, rules.ErrNameTaken
	}
	r.Version, r.CreatedAt, r.UpdatedAt = old.Version+1, old.CreatedAt, b.now()
	r.Former = rules.FormerAfter(&old, &r, b.now())
	b.stored[i] = r
	b.record(action, actor, &old, r)
	return r, nil
}

func (b *book) DeleteRule(_ context.Context, actor rules.Actor, id, ifVersion int64) error {
	b.interrupt()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	return b.remove(actor, id, ifVersion)
}

func (b *book) remove(actor rules.Actor, id, ifVersion int64) error {
	i := b.find(id)
	if i < 0 {
		return rules.ErrNotFound
	}
	old := b.stored[i]
	if ifVersion != 0 && old.Version != ifVersion {
		return rules.ErrStale
	}
	b.stored = append(b.stored[:i:i], b.stored[i+1:]...)
	old.Version++
	b.record("delete", actor, &old, old)
	return nil
}

func (b *book) ApplyPlan(_ context.Context, actor rules.Actor, p rules.Plan) error {
	b.interrupt()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if err := errors.Join(b.shelfOfPools().apply(&p.Pools), b.shelfOfProfiles().apply(&p.Profiles)); err != nil {
		return err
	}
	for i := range p.Update {
		e := &p.Update[i]
		if i := b.find(e.Old.ID); i < 0 || b.stored[i].Version != e.Old.Version {
			return rules.ErrStale
		}
	}
	for _, r := range p.Delete {
		if err := b.remove(actor, r.ID, 0); err != nil {
			return err
		}
	}
	for i := range p.Update {
		e := &p.Update[i]
		if _, err := b.update("import", actor, e.New, 0); err != nil {
			return err
		}
	}
	for _, r := range p.Create {
		if _, err := b.create("import", actor, r); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) RuleHistory(_ context.Context, id int64, limit int, before int64) ([]rules.Revision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []rules.Revision
	for _, r := range b.revisions {
		if r.Rule.ID == id && (before == 0 || r.Version < before) && len(out) < limit {
			out = append(out, r)
		}
	}
	return out, b.err
}

func (b *book) LastNames(ctx context.Context, ids []int64) (map[int64]string, error) {
	names := map[int64]string{}
	for _, id := range ids {
		if revisions, err := b.RuleHistory(ctx, id, 1, 0); err != nil {
			return nil, err
		} else if len(revisions) > 0 {
			names[id] = revisions[0].Rule.Name
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookUps++
	return names, nil
}

func (b *book) RollbackRule(_ context.Context, actor rules.Actor, id, to, ifVersion int64) (rules.Rule, error) {
	b.interrupt()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.revisions {
		if r.Rule.ID == id && r.Version == to {
			return b.update("rollback", actor, r.Rule, ifVersion)
		}
	}
	return rules.Rule{}, rules.ErrNotFound
}
