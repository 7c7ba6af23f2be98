package webtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/rules"
	"sluice/web"
)

// Deferrals are canned queues of deferred requests. They are safe for concurrent use.
type Deferrals struct {
	mu   sync.Mutex
	List []web.DeferredQueue
	// Err is what every call fails with.
	Err error
	// Notes are the drops, as actor and rule.
	Notes []string
}

// SampleDeferrals are queues in every state.
func SampleDeferrals() []web.DeferredQueue {
	return []web.DeferredQueue{
		{RuleID: 6, Rule: "webhooks-paced", InForce: true, Depth: 412, MaxItems: 10_000, Oldest: 95 * time.Second,
			MaxAge: 24 * time.Hour, Repeated: 3, At: Now.UnixMilli()},
		{RuleID: 8, Rule: "everything-per-address", InForce: true, MaxItems: 1000, MaxAge: time.Hour, At: Now.UnixMilli()},
		{RuleID: 10, Rule: "uploads-in-bytes", InForce: true, Depth: 500, MaxItems: 500, Oldest: 58 * time.Minute,
			MaxAge: time.Hour, At: Now.UnixMilli()},
		{RuleID: 77, Rule: "newsletters", Depth: 12, Oldest: 31 * time.Hour, At: Now.UnixMilli()},
		{RuleID: 78, Depth: 1, Oldest: 2 * time.Second, At: Now.UnixMilli()},
	}
}

// Deferred implements inspect.Deferrals.
func (f *Deferrals) Deferred(_ context.Context, most int) ([]web.DeferredQueue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return nil, f.Err
	}
	return slices.Clone(f.List[:min(len(f.List), most)]), nil
}

// DropDeferred implements inspect.Deferrals.
func (f *Deferrals) DropDeferred(_ context.Context, actor rules.Actor, ruleID, until int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return 0, f.Err
	}
	for i := range f.List {
		if q := &f.List[i]; q.RuleID == ruleID && until >= q.At {
			n := int(q.Depth)
			q.Depth, q.Oldest, q.Repeated = 0, 0, 0
			f.Notes = append(f.Notes, actor.Name+" "+q.Rule)
			return n, nil
		}
	}
	return 0, nil
}
