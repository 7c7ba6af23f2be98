package webtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/internal/audit"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/web"
)

// GetRule implements kit.RuleStore.
func (f *Rules) GetRule(_ context.Context, id int64) (rules.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(id)
	switch {
	case f.Err != nil:
		return rules.Rule{}, f.Err
	case i < 0:
		return rules.Rule{}, rules.ErrNotFound
	}
	return f.List[i].Clone(), nil
}

func (f *Rules) find(id int64) int {
	return slices.IndexFunc(f.List, func(r rules.Rule) bool { return r.ID == id })
}

// checked returns the rule, or the error with which the rule database would refuse it.
func (f *Rules) checked(actor rules.Actor, r rules.Rule) (rules.Rule, error) {
	if f.Err != nil {
		return r, f.Err
	}
	if err := rules.CheckReason(actor.Reason); err != nil {
		return r, err
	}
	r = r.Clone()
	r.Normalize()
	if err := rules.Validate(&r); err != nil {
		return r, err
	}
	if r.Pool != nil && *r.Pool == "no-such-pool" {
		return r, &field.ValidationError{Fields: []field.Problem{{Field: "pool", Message: "does not exist"}}}
	}
	if slices.ContainsFunc(f.List, func(o rules.Rule) bool { return o.Name == r.Name && o.ID != r.ID }) {
		return r, rules.ErrNameTaken
	}
	return r, nil
}

// CreateRule implements kit.RuleStore.
func (f *Rules) CreateRule(_ context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.ID = 0
	r, err := f.checked(actor, r)
	if err != nil {
		return rules.Rule{}, err
	}
	for i := range f.List {
		r.ID = max(r.ID, f.List[i].ID)
	}
	r.ID, r.Version, r.CreatedAt, r.UpdatedAt = r.ID+1, 1, Now, Now
	f.List = append(f.List, r)
	f.note("create", actor, &r)
	return r.Clone(), nil
}

// UpdateRule implements kit.RuleStore.
func (f *Rules) UpdateRule(_ context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error) {
	return f.update(actor, "update", r, ifVersion)
}

// update stores a new version of a rule.
func (f *Rules) update(actor rules.Actor, action string, r rules.Rule, ifVersion int64) (rules.Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.checked(actor, r)
	if err != nil {
		return rules.Rule{}, err
	}
	i := f.find(r.ID)
	switch {
	case i < 0:
		return rules.Rule{}, rules.ErrNotFound
	case ifVersion != 0 && f.List[i].Version != ifVersion:
		return rules.Rule{}, rules.ErrStale
	}
	r.Version, r.CreatedAt, r.UpdatedAt = f.List[i].Version+1, f.List[i].CreatedAt, Now
	if f.Revisions == nil {
		f.Revisions = map[int64][]rules.Revision{}
	}
	if len(f.Revisions[r.ID]) == 0 { // what the sample begins with
		f.Revisions[r.ID] = []rules.Revision{
			{Version: f.List[i].Version, Action: "create", Actor: rules.Actor{Kind: "user", Name: "ada"}, At: Now,
				Rule: f.List[i].Clone()}}
	}
	f.List = slices.Clone(f.List)
	f.List[i] = r
	f.note(action, actor, &r)
	return r.Clone(), nil
}

// DeleteRule implements kit.RuleStore.
func (f *Rules) DeleteRule(_ context.Context, actor rules.Actor, id, ifVersion int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(id)
	switch {
	case f.Err != nil:
		return f.Err
	case i < 0:
		return rules.ErrNotFound
	case ifVersion != 0 && f.List[i].Version != ifVersion:
		return rules.ErrStale
	}
	r := f.List[i]
	f.List = slices.Delete(slices.Clone(f.List), i, i+1)
	f.note("delete", actor, &r)
	return nil
}

func (f *Rules) note(action string, actor rules.Actor, r *rules.Rule) {
	if f.Revisions == nil {
		f.Revisions = map[int64][]rules.Revision{}
	}
	rev := rules.Revision{Version: r.Version, Action: action, Reason: actor.Reason, At: Now, Rule: r.Clone()}
	rev.Actor = rules.Actor{Kind: actor.Kind, Name: actor.Name}
	if past := f.Revisions[r.ID]; len(past) > 0 {
		rev.Changes = rules.Diff(&past[0].Rule, r)
	}
	f.Revisions[r.ID] = append([]rules.Revision{rev}, f.Revisions[r.ID]...)
	if b := f.bulk; b != nil {
		b.left = append(b.left, rules.SeenVersion{ID: r.ID, Version: r.Version})
		b.entry.Rules++
		b.entry.Listed = append(b.entry.Listed, audit.BulkRule{ID: r.ID, Name: r.Name, Version: r.Version})
		b.entry.Changes = rev.Changes
		return
	}
	f.log.add(actor, action, "rule", r.ID, r.Name, map[string]any{"version": r.Version, "changes": rev.Changes,
		"undoes": actor.Undoes})
}

// bulkEdit is a bulk edit: what its audit entry says, and the versions that it left.
type bulkEdit struct {
	entry struct {
		audit.Bulk
		Changes []field.Change `json:"changes"`
		Undoes  int64          `json:"undoes,omitempty"`
	}
	left []rules.SeenVersion
}

// edit runs a bulk edit, which calls update.
func (f *Rules) edit(actor rules.Actor, action string, run func() rules.BulkResult) rules.BulkResult {
	f.mu.Lock()
	f.bulk = &bulkEdit{}
	f.mu.Unlock()
	out := run()
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.bulk
	f.bulk = nil
	if out.Changed == 0 {
		return out
	}
	f.bulks = append(f.bulks, done)
	out.Bulk = int64(len(f.bulks))
	done.entry.Undoes = actor.Undoes
	f.log.add(actor, action, audit.SubjectBulk, out.Bulk, fmt.Sprintf("%d rules", done.entry.Rules), done.entry)
	return out
}

// UndoBulk implements kit.RuleStore.
func (f *Rules) UndoBulk(ctx context.Context, actor rules.Actor, bulk int64) (rules.BulkResult, error) {
	plan, err := f.PlanUndo(ctx, bulk, rules.MaxBulk)
	if err != nil {
		return rules.BulkResult{}, err
	}
	return f.edit(actor, "rollback", func() rules.BulkResult {
		out := rules.BulkResult{Same: plan.Same, Skipped: plan.Skipped}
		for _, u := range plan.Sample {
			past, _ := f.RuleHistory(ctx, u.Rule.ID, 1, u.Rule.Version)
			if _, err := f.update(actor, "rollback", past[0].Rule, u.Rule.Version); err != nil {
				out.Skip(u.Rule.ID, u.Rule.Name, err)
				continue
			}
			out.Changed++
		}
		return out
	}), nil
}

// PlanUndo implements kit.RuleStore.
func (f *Rules) PlanUndo(ctx context.Context, bulk int64, most int) (rules.UndoPlan, error) {
	var out rules.UndoPlan
	f.mu.Lock()
	var seen []rules.SeenVersion
	err := f.Err
	if bulk < 1 || bulk > int64(len(f.bulks)) {
		err = cmp.Or(err, rules.ErrNotFound)
	} else {
		seen = f.bulks[bulk-1].left
	}
	f.mu.Unlock()
	if err != nil {
		return out, err
	}
	for _, left := range seen {
		past, err := f.RuleHistory(ctx, left.ID, 1, left.Version)
		if err != nil {
			return out, err
		}
		r, err := f.GetRule(ctx, left.ID)
		changes := rules.Diff(&r, &past[0].Rule)
		switch {
		case err != nil:
			out.Skip(left.ID, past[0].Rule.Name, err)
		case len(changes) == 0:
			out.Same++
		case r.Version != left.Version:
			out.Skip(left.ID, r.Name, rules.ErrStale)
		default:
			if out.Changed++; len(out.Sample) < most {
				out.Sample = append(out.Sample, rules.UndoneRule{Rule: r, Changes: changes})
			}
		}
	}
	return out, nil
}

// RuleHistory implements kit.RuleStore.
func (f *Rules) RuleHistory(_ context.Context, id int64, limit int, before int64) ([]rules.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return nil, f.Err
	}
	var out []rules.Revision
	for _, r := range f.Revisions[id] {
		if before == 0 || r.Version < before {
			out = append(out, r)
		}
	}
	return out[:min(len(out), cmp.Or(limit, len(out)))], nil
}

// RulesBackTo implements what web.Inspect asks for.
func (f *Rules) RulesBackTo(_ context.Context, at time.Time, most int) (back match.Delta, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, past := range f.Revisions {
		if len(past) == 0 || !past[0].At.After(at) {
			continue
		}
		back.Removed = append(back.Removed, id)
		i := slices.IndexFunc(past, func(r rules.Revision) bool { return !r.At.After(at) })
		if i >= 0 && past[i].Action != "delete" {
			back.Changed = append(back.Changed, past[i].Rule.Clone())
		}
	}
	if f.Err != nil || len(back.Removed) > most {
		return match.Delta{}, false, f.Err
	}
	return back, true, nil
}

// Denials implements kit.DenialLog.
func (f *Fleet) Denials(_ context.Context, by history.Filter, n int) ([]history.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return firstOf(f.Denied, &by, n), f.Err
}

// Requests implements kit.DenialLog.
func (f *Fleet) Requests(_ context.Context, by history.Filter, n int) ([]history.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Concat(f.Denied, f.Allowed)
	slices.SortStableFunc(all, func(a, b history.Request) int { return cmp.Compare(b.At, a.At) })
	return firstOf(all, &by, n), f.Err
}

func firstOf(all []history.Request, by *history.Filter, n int) (out []history.Request) {
	for i := range all {
		if by.Match(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out[:min(n, len(out))]
}

// denials are a few that the sample rules made.
func denials() []history.Request {
	var out []history.Request
	for i := range int64(12) {
		out = append(out, history.Request{
			ID: strconv.FormatInt(i, 10), Bucket: "user:" + strconv.FormatInt(40+i%5, 10), At: Now.UnixMilli() - i*4000,
			Node: "a1b2c3", Rule: "charges-per-user", Key: "user:" + strconv.FormatInt(40+i%5, 10),
			Mode: "enforce", Status: 429, Limit: 100, Weight: 1, RetryAfter: 11_800, Method: "POST", Route: "/v1/charges",
			User: strconv.FormatInt(40+i%5, 10), IP: "203.0.113.7", Tier: "free",
		})
	}
	return out
}

// headers returns the main headers that a client would get.
func headers(r *rules.Rule, l limiter.Limit, d limiter.Decision, _ int64) []web.Header {
	policy := web.Header{Name: "RateLimit-Policy",
		Value: strconv.Quote(r.Name) + ";q=" + strconv.FormatInt(l.Count, 10) + ";w=" +
			strconv.FormatInt((l.Window+999)/1000, 10)}
	if d.Allowed {
		return []web.Header{policy}
	}
	return []web.Header{{Name: "Retry-After", Value: strconv.FormatInt((d.RetryAfter+999)/1000, 10)}, policy}
}

// DeleteRules implements kit.RuleStore.
func (f *Rules) DeleteRules(ctx context.Context, actor rules.Actor,
	seen []rules.SeenVersion) (rules.BulkResult, error) {
	var out rules.BulkResult
	if f.Err != nil {
		return out, f.Err
	}
	for _, s := range seen {
		r, err := f.GetRule(ctx, s.ID)
		if err == nil {
			err = f.DeleteRule(ctx, actor, s.ID, s.Version)
		}
		if err != nil {
			out.Skipped = append(out.Skipped, rules.SkippedRule{ID: s.ID, Name: r.Name, Err: err})
			continue
		}
		out.Changed++
	}
	return out, nil
}

// EditRules implements kit.RuleStore.
func (f *Rules) EditRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion,
	edit func(*rules.Rule)) (rules.BulkResult, error) {
	if f.Err != nil {
		return rules.BulkResult{}, f.Err
	}
	return f.edit(actor, "update", func() rules.BulkResult { return f.editEach(ctx, actor, seen, edit) }), nil
}

func (f *Rules) editEach(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion,
	edit func(*rules.Rule)) (out rules.BulkResult) {
	for _, s := range seen {
		r, err := f.GetRule(ctx, s.ID)
		if err != nil {
			out.Skip(s.ID, "", err)
			continue
		}
		edited := r.Clone()
		edit(&edited)
		if (s.Version == 0 || r.Version == s.Version) && len(rules.Diff(&r, &edited)) == 0 {
			out.Same++
			continue
		}
		if _, err := f.UpdateRule(ctx, actor, edited, s.Version); err != nil {
			out.Skip(s.ID, r.Name, err)
			continue
		}
		out.Changed++
	}
	return out
}
