package webtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// remember gives every rule a past.
func (f *Rules) remember() {
	f.Revisions = map[int64][]rules.Revision{}
	for i := range f.List {
		f.Revisions[f.List[i].ID] = invent(&f.List[i])
	}
}

// invent makes up how a rule came to be.
func invent(r *rules.Rule) []rules.Revision {
	var out []rules.Revision
	for v := int64(1); v <= r.Version; v++ {
		then := r.Clone()
		then.Version, then.Limit = v, r.Limit*(4+r.Version-v)/4
		rev := rules.Revision{
			Version: v, Action: "update", Actor: rules.Actor{Kind: "user", Name: []string{"ada", "edda"}[v%2]},
			At: r.UpdatedAt.Add(-time.Duration(r.Version-v) * 90 * time.Hour), Rule: then,
		}
		if v == 1 {
			rev.Action, rev.Actor, rev.Changes = "create", rules.Actor{Kind: "cli", Name: "import"}, rules.Diff(nil, &then)
		} else {
			rev.Changes = rules.Diff(&out[0].Rule, &then)
			rev.Reason = []string{"The card processor asked for it.", ""}[v%2]
		}
		out = slices.Insert(out, 0, rev)
	}
	return out
}

// RollbackRule implements kit.RuleStore.
func (f *Rules) RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule,
	error) {
	past, err := f.RuleHistory(ctx, id, 1, toVersion+1)
	if err != nil {
		return rules.Rule{}, err
	}
	if len(past) == 0 || past[0].Version != toVersion {
		return rules.Rule{}, rules.ErrNotFound
	}
	return f.update(actor, "rollback", past[0].Rule, ifVersion)
}

// PromoteRule implements kit.RuleStore.
func (f *Rules) PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error) {
	r, err := f.GetRule(ctx, id)
	if err != nil {
		return r, err
	}
	if r.Version != ifVersion {
		return r, rules.ErrStale
	}
	if err := r.Promote(); err != nil {
		return r, err
	}
	return f.update(actor, "promote", r, ifVersion)
}

// Figures have canned figures of single rules. Err, if not nil, is what every
// call fails with. Fields are changed by Change once there is a stream.
type Figures struct {
	mu sync.Mutex
	// Trials is what each trial counted.
	Trials map[history.Trial]history.TrialCounts
	Err    error
}

// Change changes the figures.
func (f *Figures) Change(how func(*Figures)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

func newFigures() *Figures {
	return &Figures{Trials: map[history.Trial]history.TrialCounts{{Rule: 7, Version: 3}: {Seen: 7399, Denied: 96,
		Compared: 7399, NewlyDenied: 96, First: Now.Add(-42 * time.Hour), Keys: history.Top{Entries: []history.TopEntry{
			{Key: "user:42", Denied: 38}, {Key: "user:acme-batch", Denied: 31},
			{Key: "user:sha256:1f4a90c2b7de", Denied: 14, Over: 3}, {Key: "user:7", Denied: 6}}}}}}
}

// tryCandidate gives the first rule a candidate that has not seen much.
func tryCandidate(w *World) {
	w.Rules.List[0].Candidate = &rules.Candidate{Limit: new(int64(80))}
	w.Figures.Trials[history.Trial{Rule: 1, Version: w.Rules.List[0].Version}] = history.TrialCounts{Seen: 900, Denied: 77,
		Compared: 900, NewlyDenied: 38, NewlyAllowed: 3, First: Now.Add(-5 * time.Hour),
		Keys: history.Top{Entries: []history.TopEntry{{Key: "user:42", Denied: 24, Allowed: 3}, {Key: "user:7", Denied: 14}}}}
}

// Trial implements rulepage.Trials.
func (f *Figures) Trial(_ context.Context, rule int64, versions []int64) (history.TrialCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum history.TrialCounts
	for _, v := range versions {
		sum.Add(f.Trials[history.Trial{Rule: rule, Version: v}])
	}
	return sum, f.Err
}

// hotKeys are the fleet's busiest buckets.
func hotKeys(set *match.Set) []history.HotLive {
	if set == nil || set.Len() == 0 {
		return nil
	}
	var out []history.HotLive
	for i := range int64(9) {
		d := match.Descriptor{Method: "POST", Route: "/v1/charges", User: fmt.Sprintf("user-%d", 40+i)}
		for _, m := range set.Match(&d, 1, Now, nil) {
			id, _ := match.RuleID(m.Key)
			h := history.HotLive{HotKey: history.HotKey{Key: match.DisplayKey(m.Key), Bucket: match.BucketName(m.Key),
				RuleID: id,
				Heat:   limiter.Heat{Rate: 4200 / (i + 1)}}}
			h.Nodes = []history.HotNode{{Address: "10.0.0.5:8080", Heat: limiter.Heat{Rate: h.Rate - h.Rate/3}},
				{Address: "10.0.0.6:8080", Heat: limiter.Heat{Rate: h.Rate / 3}}}
			out = append(out, h)
		}
	}
	return out
}

// HeatUp makes the two busiest keys of the first rule hot.
func HeatUp(w *World) {
	w.Fleet.Change(func(l *history.Live) {
		n := 0
		for i := range l.Hot {
			h := &l.Hot[i]
			if h.RuleID != 1 || n == 2 {
				continue
			}
			n++
			h.Hot, h.Since = true, Now.Add(-7*time.Minute).UnixMilli()
			for k := range h.Nodes {
				h.Nodes[k].Hot = true
			}
		}
	})
}
