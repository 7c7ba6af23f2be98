package app

import (
	"context"
	"slices"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/rules/match"
)

const (
	// idlePass is how often every rule is examined for traffic, idleRules how many are at once.
	idlePass  = time.Hour
	idleRules = 5
)

// alertFacts gathers what the evaluation of alerts looks at. One goroutine uses it.
type alertFacts struct {
	webhooks interface {
		List(ctx context.Context) ([]alerts.Webhook, error)
	}
	silences func(context.Context) ([]alerts.Silence, error)
	sets     *match.Current
	tokens   *access.Current
	live     func(context.Context) history.Live
	stats    history.Source
	now      func() time.Time

	// byName are the ids of the rules of set, byID their names.
	set    *match.Set
	byName map[string]int64
	byID   map[int64]string
	// began is when the pass over the rules began, and next the id of the rule from which it goes on.
	began time.Time
	next  int64
}

// gather implements evaluate.RunnerOptions.Facts. The error is one of the rules database.
func (a *alertFacts) gather(ctx context.Context) (evaluate.Facts, error) {
	var f evaluate.Facts
	var err error
	if f.Webhooks, err = a.webhooks.List(ctx); err != nil {
		return f, err
	}
	f.Sightings = expiringTokens(a.tokens.Load(), a.now())
	if f.Silences, err = a.silences(ctx); err != nil {
		return f, err
	}
	set := a.sets.Load()
	if set == nil {
		return f, nil
	}
	a.name(set)
	f.Rules = a.byName
	if live := a.live(ctx); live.Err == nil && !live.Own {
		f.Minute = map[string]evaluate.Minute{}
		for i := range live.Rules {
			m := &live.Rules[i].Minute
			f.Minute[live.Rules[i].Name] = evaluate.Minute{Requests: m.Total(), Denied: m.Denied - m.DegradedDenied}
		}
		f.Sightings = slices.Concat(f.Sightings, a.hot(&live), oldNodes(&live))
	}
	f.Idle = a.idle(ctx, set)
	return f, nil
}

// name notes the names of the rules of a set.
func (a *alertFacts) name(set *match.Set) {
	if a.set == set {
		return
	}
	a.set, a.byName, a.byID = set, make(map[string]int64, set.Len()), make(map[int64]string, set.Len())
	for i := range set.Len() {
		r := &set.At(i).Rule
		a.byName[r.Name], a.byID[r.ID] = r.ID, r.Name
	}
}

// hot are the keys of rules that are hot on any node.
func (a *alertFacts) hot(live *history.Live) (out []evaluate.Sighting) {
	for i := range live.Hot {
		h := &live.Hot[i]
		name, known := a.byID[h.RuleID]
		if !h.Hot || !known {
			continue
		}
		for _, n := range h.Nodes {
			if n.Hot {
				out = append(out, evaluate.Sighting{
					Subject: alerts.Subject{Kind: alerts.KindKeyHot, Rule: name, Key: alerts.ShownText(h.Key)},
					State:   alerts.On,
					Node:    "fleet/" + n.Address, At: n.Since, LifeMS: hotLinger.Milliseconds(),
					Details: evaluate.Details{Address: n.Address, RuleID: h.RuleID,
						Numbers: map[string]int64{"per_second": h.Rate}},
				})
			}
		}
	}
	return out
}

// oldNodes are the nodes whose rules the rule database has not confirmed for long. They cannot say so themselves while
// they do not reach it.
func oldNodes(live *history.Live) (out []evaluate.Sighting) {
	for i := range live.Nodes {
		n := &live.Nodes[i]
		age := time.Duration(n.At-n.Confirmed) * time.Millisecond
		if n.Silent || n.Unknown || n.Confirmed == 0 || age < oldSet {
			continue
		}
		out = append(out, evaluate.Sighting{Subject: alerts.Subject{Kind: alerts.KindSetOld}, State: alerts.On,
			Node: "fleet/" + n.ID, At: n.At, LifeMS: nodeLinger.Milliseconds(), Details: evaluate.Details{Address: n.Address,
				Numbers: map[string]int64{"age_s": int64(age / time.Second)}}})
	}
	return out
}

// idle examines the next rules of the pass, and reports which of them matched no request for a week.
func (a *alertFacts) idle(ctx context.Context, set *match.Set) map[string]bool {
	now := a.now()
	if a.next == 0 {
		if !a.began.IsZero() && now.Sub(a.began) < idlePass {
			return nil
		}
		a.began = now
	}
	out := map[string]bool{}
	from, to := doctor.WeekOf(now)
	for i := range set.Len() {
		r := &set.At(i).Rule
		switch {
		case r.ID < a.next:
			continue
		case len(out) == idleRules:
			a.next = r.ID
			return out
		}
		found, err := a.stats.Stats(ctx, history.Query{Rule: r.Name, From: from, To: to, Step: time.Hour})
		if err != nil || found.Partial != nil {
			a.next = r.ID // the next evaluation tries again
			return out
		}
		facts := doctor.Facts{Rule: *r, Now: now, Hours: found.Series[0].Points, Options: set.Options()}
		out[r.Name] = slices.ContainsFunc(doctor.Examine(&facts), func(f doctor.Finding) bool {
			return f.Finding == doctor.MatchesNothing
		})
	}
	a.next = 0
	return out
}
