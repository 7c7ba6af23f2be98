package webtest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
	"sluice/web"
)

// Counters are the buckets of a world, with Guard's arithmetic, and what people
// did to them. It is safe for concurrent use; the fields are for when there are
// no calls.
type Counters struct {
	world *World
	// Err, if not nil, is what every call fails with.
	Err error
	// HomeDown is a rule whose keys are at home in a region that does not answer.
	HomeDown string

	mu sync.Mutex
	// Notes are the resets, as "who rule key" or "who rule key ban".
	Notes []string
	// NoteErr is what keeping account of a reset fails with.
	NoteErr error
}

// Spend charges every bucket that a request leads to.
func (w *World) Spend(d *match.Descriptor, weight int64) error {
	for _, m := range w.Sets.Load().Match(d, weight, w.Clock.Now(), nil) {
		var res limiter.Result
		req := limiter.Request{Op: limiter.OpCharge, Asks: []limiter.Ask{{Key: m.Key, Limit: m.Limit, Weight: weight}}}
		if m.Limit.Algorithm.Traits().Slots {
			continue
		}
		if err := w.Guard.Do(context.Background(), &req, &res); err != nil {
			return err
		}
	}
	return nil
}

// Explain implements what web.Inspect asks for, without fail modes and pools.
func (f *Counters) Explain(ctx context.Context, d *match.Descriptor, weight int64) (web.Explanation, error) {
	set := f.world.Sets.Load()
	e := web.Explanation{SetVersion: set.Version(), Active: set.Len(), Allowed: true, Status: 200}
	for _, c := range set.Explain(d, weight, f.world.Clock.Now()) {
		cr := web.ConsideredRule{Considered: c}
		if c.Matched {
			var res limiter.Result
			if err := f.Buckets(ctx, c.Rule, limiter.OpPeek, []limiter.Ask{{Key: c.Key, Limit: c.Limit, Weight: c.Weight}},
				&res); err != nil {
				return e, err
			}
			said := res.Limits[0]
			cr.Bucket = web.FiguresOf(c.Limit, said)
			cr.Bucket.Home = f.Home(c.Key)
			if said.Allowed {
				cr.Bucket.After = max(0, said.Remaining-c.Weight)
			} else if !c.Rule.Shadow {
				e.Allowed, e.Status, e.Strictest, e.RetryAfter = false, 429, c.Rule.Rule.Name, said.RetryAfter
			}
		}
		e.Rules = append(e.Rules, cr)
	}
	return e, nil
}

// ExplainCall implements the method of web.Inspect. It decides each descriptor separately.
func (f *Counters) ExplainCall(ctx context.Context, call *web.AskedCall) (web.Explanation, error) {
	set := f.world.Sets.Load()
	e := web.Explanation{SetVersion: set.Version(), Active: set.Len(), Allowed: true, Status: 200}
	for _, list := range call.Descriptors {
		d := web.ExplainedDescriptor{Explained: set.ExplainEntries(call.Domain, list, f.world.Clock.Now())}
		if d.Matched {
			var res limiter.Result
			asks := []limiter.Ask{{Key: d.Key, Limit: d.Limit, Weight: call.Addend}}
			if err := f.Buckets(ctx, d.Rule, limiter.OpPeek, asks, &res); err != nil {
				return e, err
			}
			said := res.Limits[0]
			d.Bucket = web.FiguresOf(d.Limit, said)
			d.Bucket.Home, d.Bucket.HeldBy = f.Home(d.Key), f.Held(ctx, d.Rule, d.Key)
			if said.Allowed {
				d.Bucket.After = max(0, said.Remaining-call.Addend)
			} else if !d.Rule.Shadow {
				e.Allowed, e.Status, e.Strictest, e.RetryAfter = false, 429, d.Rule.Rule.Name, said.RetryAfter
			}
		}
		e.Descriptors = append(e.Descriptors, d)
	}
	return e, nil
}

// Buckets implements what web.Inspect asks for.
func (f *Counters) Buckets(ctx context.Context, rule *match.Compiled, op limiter.Op, asks []limiter.Ask,
	res *limiter.Result) error {
	if f.Err != nil {
		return f.Err
	}
	if rule.Rule.Name == f.HomeDown {
		return &limiter.StoreError{Cause: limiter.CauseHome, Err: context.DeadlineExceeded}
	}
	return f.world.Guard.Do(ctx, &limiter.Request{Op: op, Asks: asks}, res)
}

// Held is what two Envoys hold, of rules for descriptors.
func (f *Counters) Held(_ context.Context, rule *match.Compiled, _ limiter.Key) []web.Held {
	if rule.Rule.Descriptor == nil {
		return nil
	}
	return []web.Held{{Kind: "envoy_quota", Holders: 2, Units: 950}}
}

// Spent returns canned units of two regions.
func (f *Counters) Spent(context.Context, limiter.Key, limiter.Limit) []limiter.RegionUnits {
	return []limiter.RegionUnits{{Region: "eu", Units: 412}, {Region: "us", Units: 96}}
}

// Home returns the home region of a key: us for rules with span global_exact, "" for others.
func (f *Counters) Home(key limiter.Key) string {
	if set := f.world.Sets.Load(); set != nil && set.Exact(key) != nil {
		return "us"
	}
	return ""
}

// NoteReset implements inspect.Resets.
func (f *Counters) NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key, only string,
	reset func(context.Context) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.NoteErr != nil {
		return f.NoteErr
	}
	if err := reset(ctx); err != nil {
		return err
	}
	name := f.world.Sets.Load().Get(ruleID).Rule.Name
	f.Notes = append(f.Notes, actor.Name+strings.TrimRight(" "+name+" "+key+" "+only, " "))
	return nil
}

// apply puts the overrides in force with a set.
func (f *Overrides) apply(set *match.Set) *match.Set {
	if len(f.List) == 0 {
		return set
	}
	edit := override.New().Replace()
	for i := range f.List {
		edit.Add(match.OverrideRow(&f.List[i]))
	}
	return set.WithOverrides(edit.Done(1, Now.UnixMilli()))
}

// Request implements kit.DenialLog.
func (f *Fleet) Request(_ context.Context, id string) (history.Request, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range slices.Concat(f.Denied, f.Allowed) {
		if d.ID == id && f.Err == nil {
			return d, true, nil
		}
	}
	return history.Request{}, false, f.Err
}

// spendSome empties the buckets of some users.
func spendSome(w *World) {
	for _, user := range []string{"42", "43"} {
		d := match.Descriptor{Method: "POST", Route: "/v1/charges", User: user, IP: netip.MustParseAddr("203.0.113.7")}
		if err := w.Spend(&d, 100); err != nil {
			panic(err) // canned data is valid
		}
	}
}

// BanSome gives the rule charges-per-user a ban and bans user 43.
func BanSome(w *World) {
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "charges-per-user" {
			r.Ban = &rules.Ban{After: 2, WithinMS: 60_000, ForMS: 600_000}
			r.Normalize()
		}
	}
	mustCompile(w)
	spendSome(w)
	m := w.Sets.Load().Named("charges-per-user")
	bucket, err := w.Sets.Load().FindBucket(m, "user:43", w.Clock.Now())
	if err != nil {
		panic(err) // canned data is valid
	}
	req := limiter.Request{Asks: []limiter.Ask{{Key: bucket.Key, Limit: bucket.Limit, Weight: 1},
		{Key: limiter.BanKey(bucket.Key), Limit: *m.Ban}}}
	for range 2 {
		var res limiter.Result
		if err := w.Guard.Do(context.Background(), &req, &res); err != nil {
			panic(err) // the store is in memory
		}
	}
}
