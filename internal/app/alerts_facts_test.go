package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/alerts/sense"
	"sluice/internal/history"
	"sluice/internal/records"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// noHooks is a store without webhooks.
type noHooks struct{}

func (noHooks) List(context.Context) ([]alerts.Webhook, error) { return nil, nil }

func noSilences(context.Context) ([]alerts.Silence, error) { return nil, nil }

// weeks answers with a week of hours, of which a rule has so many requests in each.
type weeks struct {
	requests map[string]int64
	asked    []string
	err      error
}

func (w *weeks) Stats(_ context.Context, q history.Query) (history.Result, error) {
	if w.err != nil {
		return history.Result{}, w.err
	}
	w.asked = append(w.asked, q.Rule)
	var points []history.Point
	for at := q.From; at.Before(q.To); at = at.Add(q.Step) {
		points = append(points, history.Point{At: at, Known: true, Figures: history.Figures{Allowed: w.requests[q.Rule]}})
	}
	return history.Result{Series: []history.Series{{Rule: q.Rule, Points: points}}}, nil
}

// gathering is an alertFacts with some rules, and what it reads.
func gathering(t *testing.T, names ...string) (*alertFacts, *weeks, *history.Live, *time.Time) {
	t.Helper()
	list := make([]rules.Rule, len(names))
	for i, name := range names {
		list[i] = goodRule(int64(i+1), name)
	}
	set, err := match.Compile(list, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, live := &weeks{requests: map[string]int64{}}, &history.Live{}
	now := time.Date(2026, 11, 24, 12, 30, 0, 0, time.UTC)
	f := &alertFacts{webhooks: noHooks{}, silences: noSilences, sets: &match.Current{}, tokens: &access.Current{},
		stats: w, now: func() time.Time { return now }, live: func(context.Context) history.Live { return *live }}
	f.sets.Store(set)
	return f, w, live, &now
}

func TestAlertFacts_FiguresOfTheFleet(t *testing.T) {
	f, _, live, now := gathering(t, "a", "b")
	at := now.UnixMilli()
	hot := limiter.Heat{Rate: 900, Hot: true, Since: at - 5000}
	live.Rules = []history.RuleLive{{Name: "a", Minute: history.Figures{Allowed: 10, Denied: 30, Degraded: 9,
		DegradedDenied: 5}}}
	live.Hot = []history.HotLive{
		{HotKey: history.HotKey{Key: "user:1", RuleID: 2, Heat: hot}, Nodes: []history.HotNode{{Address: "n1", Heat: hot},
			{Address: "n2", Heat: limiter.Heat{Rate: 3}}}},
		{HotKey: history.HotKey{Key: "user:2", RuleID: 2}}, {HotKey: history.HotKey{Key: "sent", Heat: hot}},
	}
	old := at - (oldSet + time.Second).Milliseconds()
	live.Nodes = []history.NodeLive{
		{Status: history.Status{ID: "i1", Address: "n1", At: at, Confirmed: old}},
		{Status: history.Status{ID: "i2", Address: "n2", At: at, Confirmed: at - 1000}},
		{Status: history.Status{ID: "i3", Address: "n3", At: at, Confirmed: old}, Silent: true},
	}
	got, err := f.gather(t.Context())
	if err != nil || got.Minute["a"].Requests != 40 || got.Minute["a"].Denied != 25 || got.Rules["b"] != 2 {
		t.Errorf("%v: figures %v, rules %v", err, got.Minute, got.Rules)
	}
	var seen []string
	for _, s := range got.Sightings {
		seen = append(seen, fmt.Sprint(s.Subject.Kind, " ", s.Subject.Rule, " ", s.Subject.Key, " ", s.Address))
	}
	if want := []string{"key_hot b user:1 n1", "set_old   n1"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	live.Own = true // the figures of this node alone say nothing about the fleet
	if got, _ := f.gather(t.Context()); got.Minute != nil || got.Sightings != nil {
		t.Errorf("without the fleet: %v, %v", got.Minute, got.Sightings)
	}
}

func TestAlertFacts_ExaminesAFewRulesAtATime(t *testing.T) {
	f, w, _, now := gathering(t, "r1", "r2", "r3", "r4", "r5", "r6", "r7")
	for i := range 6 {
		w.requests[fmt.Sprint("r", i+1)] = 1
	}
	examined := func() []string {
		got, err := f.gather(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(got.Idle)) {
			out = append(out, fmt.Sprint(name, " ", got.Idle[name]))
		}
		return out
	}
	first := examined()
	if len(first) != idleRules || first[0] != "r1 false" {
		t.Errorf("examined %q", first)
	}
	w.err = rules.ErrUnavailable
	if got := examined(); got != nil {
		t.Errorf("without figures: %q", got)
	}
	w.err = nil
	if got := examined(); !slices.Equal(got, []string{"r6 false", "r7 true"}) {
		t.Errorf("then %q", got)
	}
	if got := examined(); got != nil {
		t.Errorf("the pass is over, and it examined %q", got)
	}
	*now = now.Add(idlePass)
	if got := examined(); !slices.Equal(got, first) {
		t.Errorf("an hour later %q, want %q", got, first)
	}
}

func TestOwnConditions(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	account := &records.Account{}
	ready := &readiness{}
	known := trouble.New(slog.New(slog.DiscardHandler), func() time.Time { return now }, nil)
	o := &ownConditions{ready: ready, trouble: known, region: "eu", refused: func() []sense.Condition { return nil },
		accounts: map[string]func() records.Totals{"kafka": account.Totals},
		now:      func() time.Time { return now }, dropped: map[string]int64{}}
	met := func() (out []string) {
		for _, c := range o.met() {
			out = append(out, strings.TrimSpace(fmt.Sprint(c.Subject.Kind, " ", c.Subject.Level, " ", c.Numbers, " ", c.Cause)))
		}
		return out
	}
	if got := met(); got != nil {
		t.Errorf("before the first rules: %q", got)
	}
	ready.rules.Store(&ruleState{version: 3, confirmed: now, refused: -1})
	if got := met(); got != nil {
		t.Errorf("all is well: %q", got)
	}
	now = now.Add(oldSet)
	account.Drop(records.RingFull, 4)
	ready.rules.Store(&ruleState{version: 3, confirmed: now.Add(-oldSet), refused: 4})
	want := []string{"set_old  map[age_s:120]", "decision_log_dropping kafka map[dropped:4 produced:0]"}
	if got := met(); !slices.Equal(got, want) {
		t.Errorf("met %q, want %q", got, want)
	}
	if got := met(); len(got) != 1 {
		t.Errorf("the log loses no more, and %q", got)
	}
}

// TestOwnConditions_TroubleIsAnAlert: what the registry of the node has, and no earlier than people need it.
func TestOwnConditions_TroubleIsAnAlert(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	known := trouble.New(slog.New(slog.DiscardHandler), func() time.Time { return now }, nil)
	o := &ownConditions{ready: &readiness{}, trouble: known, region: "eu",
		refused: func() []sense.Condition { return nil }, now: func() time.Time { return now }}
	for _, c := range []struct {
		trouble.Trouble

		want string
	}{
		{trouble.Trouble{Condition: nodeStarved, Numbers: map[string]int64{"late": 3}}, "node_starved  map[late:3] 0s"},
		{trouble.Trouble{Condition: rulesRefused, Numbers: map[string]int64{"version": 4, "in_force": 3}},
			"set_refused  map[in_force:3 version:4] 10s"},
		{trouble.Trouble{Condition: regionCutOff, Subject: "us", Since: now.Add(time.Millisecond - cutAlert)}, ""},
		{trouble.Trouble{Condition: regionCutOff, Subject: "asia", Since: now.Add(-cutAlert), Cause: "refused"},
			"region_cut_off asia and eu map[] " + cutLinger.String() + " refused"},
		{trouble.Trouble{Condition: databaseUnavailable}, ""},
	} {
		known.Set(c.Trouble)
		got := ""
		for _, m := range o.met() {
			got += strings.TrimSpace(fmt.Sprint(m.Subject.Kind, " ", m.Subject.Level, " ", m.Numbers, " ", m.Linger, " ",
				m.Cause))
		}
		if got != c.want {
			t.Errorf("%s: met %q, want %q", c.Code, got, c.want)
		}
		known.Clear(c.Condition, c.Subject)
	}
}

func TestAlertFacts_AHotKeyHasNoCredential(t *testing.T) {
	f, _, live, now := gathering(t, "a")
	hot := limiter.Heat{Rate: 900, Hot: true, Since: now.UnixMilli()}
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	live.Hot = []history.HotLive{{HotKey: history.HotKey{Key: "user:token:" + secret, RuleID: 1, Heat: hot},
		Nodes: []history.HotNode{{Address: "n1", Heat: hot}}}}
	got, err := f.gather(t.Context())
	if err != nil || len(got.Sightings) != 1 {
		t.Fatalf("%d sightings, %v", len(got.Sightings), err)
	}
	if key := got.Sightings[0].Subject.Key; strings.Contains(key, secret) || key == "" {
		t.Errorf("the key of the alert is %q", key)
	}
}
