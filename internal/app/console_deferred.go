package app

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"sluice/api/decide"
	"sluice/internal/database"
	"sluice/rules"
	"sluice/web"
)

// deferrals shows and drops deferred requests for the console.
type deferrals struct {
	checker *decide.Checker
	db      *database.DB
}

// Deferred implements inspect.Deferrals.
func (d deferrals) Deferred(ctx context.Context, most int) ([]web.DeferredQueue, error) {
	var out []web.DeferredQueue
	known := map[int64]bool{}
	for _, r := range d.checker.DeferringRules(most) {
		known[r.Rule.ID] = true
		out = append(out, web.DeferredQueue{RuleID: r.Rule.ID, Rule: r.Rule.Name, InForce: true,
			MaxItems: r.Rule.Defer.MaxItems,
			MaxAge:   time.Duration(r.Rule.Defer.MaxAgeMS) * time.Millisecond})
	}
	ids, err := d.checker.Queues(ctx, most)
	if err != nil {
		return nil, err
	}
	names, _ := d.db.LastNames(ctx, ids) // without the history, queues have no names
	for _, id := range ids {
		if !known[id] {
			out = append(out, web.DeferredQueue{RuleID: id, Rule: names[id]})
		}
	}
	slices.SortFunc(out, func(a, b web.DeferredQueue) int { return cmp.Compare(a.RuleID, b.RuleID) })
	out = out[:min(len(out), most)]
	for i := range out {
		st, err := d.checker.Waiting(ctx, out[i].RuleID)
		if err != nil {
			return nil, err
		}
		out[i].Depth, out[i].Oldest, out[i].Repeated, out[i].At = st.Depth, st.Age, st.Repeated, st.At
	}
	return out, nil
}

// DropDeferred implements inspect.Deferrals.
func (d deferrals) DropDeferred(ctx context.Context, actor rules.Actor, ruleID, until int64) (dropped int, err error) {
	st, err := d.checker.Waiting(ctx, ruleID)
	if err != nil || st.Depth == 0 {
		return 0, err
	}
	names, err := d.db.LastNames(ctx, []int64{ruleID})
	if err != nil {
		return 0, err
	}
	name, inForce := names[ruleID], ""
	for _, r := range d.checker.DeferringRules(math.MaxInt) {
		if r.Rule.ID == ruleID {
			inForce = r.Rule.Name
		}
	}
	var failed error
	err = d.db.NoteDrop(ctx, actor, ruleID, name, st.Depth, func(ctx context.Context) error {
		dropped, failed = d.checker.DropDeferred(ctx, ruleID, inForce, until)
		if dropped > 0 {
			return nil // dropped requests must be recorded
		}
		return failed
	})
	return dropped, cmp.Or(err, failed)
}
