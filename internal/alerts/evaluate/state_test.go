package evaluate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/alerts"
)

// Only what the database lacks, or has in an older form, is stored again, or taken over from what a node stored before.
func TestStates_OnlyOlderOnesGiveWay(t *testing.T) {
	const lacks = 0
	of := func(changed int64) *States {
		st := &States{}
		if st.init(); changed != lacks {
			s := usageOf("user:1")
			st.add(s.String(), &subject{Subject: s, Changed: changed})
			st.budgets[budgetPrefix+"key_usage|1"] = &budget{Changed: changed}
		}
		return st
	}
	for _, c := range []struct {
		database int64
		older    bool
	}{{lacks, true}, {9, true}, {10, false}, {11, false}} {
		mine, want := of(10), 0
		if c.older {
			want = 2
		}
		if mine.compare(of(c.database)); len(mine.unsaved) != want {
			t.Errorf("the database has the form of %d: %v are stored again, want %d", c.database, mine.unsaved, want)
		}
		database := of(c.database)
		database.adopt(mine)
		if len(database.unsaved) != want || c.older && (database.subjects[usageOf("user:1").String()].Changed != 10 ||
			database.budgets[budgetPrefix+"key_usage|1"].Changed != 10) {
			t.Errorf("the database has the form of %d: %v were taken over, want %d", c.database, database.unsaved, want)
		}
	}
}

// Two summaries of equally many alerts are two messages, or the second would be taken for the first, sent again.
func TestEvaluate_SummariesHaveIDsOfTheirOwn(t *testing.T) {
	tb := newTable(t)
	ids := map[string]bool{}
	for flood := range 3 {
		for i := range 6 {
			tb.report("a", alerts.On, usageOf(fmt.Sprintf("user:%d-%d", flood, i)), used)
		}
		for _, m := range tb.evaluate(2 * time.Minute).Changes.Messages {
			if m.Type != alerts.TypeSummary || ids[m.ID] {
				t.Errorf("flood %d: message %s %s", flood, m.Type, m.ID)
			}
			ids[m.ID] = true
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d summaries", len(ids))
	}
}

// A clock that was ahead does not keep alerts waiting for the end of a minute of the future.
func TestEvaluate_AClockThatWasAheadDelaysNoSummary(t *testing.T) {
	tb := newTable(t)
	tb.facts.Now = noon.Add(30 * 24 * time.Hour)
	for i := range 6 {
		tb.report("a", alerts.On, usageOf(fmt.Sprint("user:", i)), used)
	}
	tb.evaluate(0)
	tb.facts.Now = noon // another node evaluates
	tb.restart()
	tb.report("a", alerts.On, usageOf("user:9"), used)
	if r := tb.evaluate(0); len(r.Changes.Messages) != 0 {
		t.Fatalf("sent %+v", r.Changes.Messages)
	}
	if r := tb.evaluate(period); len(r.Changes.Messages) != 1 || body(t, &r.Changes.Messages[0]).Data.Count != 1 {
		t.Errorf("after a minute: sent %+v", r.Changes.Messages)
	}
}

func TestEvaluate_KnowsWhichNodesSeeIt(t *testing.T) {
	tb := newTable(t)
	nodes := func() []string { return tb.states.active(1)[0].Data.Nodes }
	tb.report("b", alerts.On, usageOf("user:42"), used)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(0)
	if got := nodes(); !slices.Equal(got, []string{"a:8080", "b:8080"}) {
		t.Errorf("nodes %q", got)
	}
	tb.restart()
	tb.report("b", alerts.Off, usageOf("user:42"), Details{})
	tb.evaluate(0)
	tb.restart() // it was stored
	if got := nodes(); !slices.Equal(got, []string{"a:8080"}) {
		t.Errorf("after node b no longer sees it: nodes %q", got)
	}
}

// The last report says how long a condition is kept.
func TestEvaluate_ALongerLifeCounts(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(0)
	tb.life = time.Hour
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(time.Minute)
	tb.restart()
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{{time.Hour, nil}, {time.Millisecond, []string{"key_usage off"}}} {
		if got := stateOf(tb.evaluate(c.after).Changes.Events); !slices.Equal(got, c.want) {
			t.Errorf("after another %s: told %q, want %q", c.after, got, c.want)
		}
	}
}

// Of the subjects that are over, the one that was told first gives way to a new one, also in the database.
func TestEvaluate_TheOldestSubjectGivesWay(t *testing.T) {
	tb := newTable(t)
	for i := range maxSubjects - 1 {
		tb.report("a", alerts.On, usageOf(fmt.Sprint("user:", i)), used)
	}
	tb.evaluate(0)
	tb.report("a", alerts.On, usageOf("later"), used)
	tb.evaluate(time.Second)
	for _, key := range []string{"later", "user:3"} {
		tb.report("a", alerts.Off, usageOf(key), Details{})
	}
	tb.report("a", alerts.On, usageOf("new"), used)
	tb.evaluate(time.Second)
	for key, want := range map[string]bool{"later": true, "user:3": false, "user:4": true, "new": true} {
		name := usageOf(key).String()
		if _, stored := tb.stored[name]; stored != want || tb.states.subjects[name] != nil != want {
			t.Errorf("%s is known: %t, stored: %t, want %t", key, tb.states.subjects[name] != nil, stored, want)
		}
	}
}

// An alert began when it was seen, unless a clock is wrong.
func TestEvaluate_BeganWhenItWasSeen(t *testing.T) {
	for _, c := range []struct{ ago, want time.Duration }{
		{0, 0}, {5 * time.Second, 5 * time.Second}, {-time.Hour, 0}, {keptCounted, 0},
		{keptCounted - time.Second, keptCounted - time.Second},
	} {
		tb := newTable(t)
		tb.facts.Sightings = []Sighting{{Subject: usageOf("user:42"), State: alerts.On, Node: "a",
			At: noon.Add(-c.ago).UnixMilli(), Details: used}}
		if got := noon.Sub(*tb.evaluate(0).Changes.Events[0].Data.Since); got != c.want {
			t.Errorf("seen %s ago: began %s ago, want %s", c.ago, got, c.want)
		}
	}
}

// Events about a subject have names of their own, also if it comes and goes within a millisecond.
func TestEvaluate_EventsOfOneMomentDiffer(t *testing.T) {
	tb := newTable(t)
	tb.facts.Quiet = 0
	for range 3 {
		tb.report("a", alerts.On, usageOf("user:42"), used)
		tb.report("a", alerts.Off, usageOf("user:42"), Details{})
	}
	uids := map[string]bool{}
	events := tb.evaluate(0).Changes.Events
	for i := range events {
		uids[events[i].UID] = true
	}
	if len(events) != 6 || len(uids) != 6 {
		t.Errorf("%d events with %d names", len(events), len(uids))
	}
}

func TestThreshold_BeginsAndEndsAtItsBounds(t *testing.T) {
	for _, c := range []struct {
		of      threshold
		at      Minute
		on, off bool
	}{
		{threshold{percent: 50}, Minute{20, 10}, true, false},
		{threshold{percent: 50}, Minute{19, 19}, false, false}, // too few are no evidence
		{threshold{percent: 50}, Minute{100, 49}, false, false},
		{threshold{percent: 50}, Minute{100, 40}, false, false},
		{threshold{percent: 50}, Minute{1000, 399}, false, true},
		{threshold{percent: 50}, Minute{10, 10}, false, false},
		{threshold{percent: 50}, Minute{9, 9}, false, true},
		{threshold{percent: 1}, Minute{100, 1}, true, false},
		{threshold{percent: 100}, Minute{100, 99}, false, false},
		{threshold{perSecond: 10}, Minute{600, 600}, true, false},
		{threshold{perSecond: 10}, Minute{599, 599}, false, false},
		{threshold{perSecond: 10}, Minute{480, 480}, false, false},
		{threshold{perSecond: 10}, Minute{479, 479}, false, true},
		{threshold{50, 10}, Minute{1000, 500}, true, false},
		{threshold{50, 10}, Minute{1000, 399}, false, true},
		{threshold{50, 10}, Minute{1000, 450}, false, false},
		{threshold{}, Minute{1000, 1000}, false, true},
	} {
		if on, off := c.of.on(c.at), c.of.off(c.at); on != c.on || off != c.off {
			t.Errorf("%+v at %+v: on %t, off %t; want %t, %t", c.of, c.at, on, off, c.on, c.off)
		}
	}
}

// The thresholds of a webhook count while it is active and asks for denials.
func TestEvaluate_ThresholdsOfWebhooksThatAskForThem(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*alerts.Webhook)
		want   bool
	}{
		{"active", func(*alerts.Webhook) {}, true},
		{"for denials", func(w *alerts.Webhook) { w.Kinds = []string{string(alerts.KindRuleDenials)} }, true},
		{"inactive", func(w *alerts.Webhook) { w.IsActive = false }, false},
		{"for other kinds", func(w *alerts.Webhook) { w.Kinds = []string{string(alerts.KindKeyUsage)} }, false},
		{"without thresholds", func(w *alerts.Webhook) { w.DeniedPercent = 0 }, false},
	} {
		tb := newTable(t)
		w := alerts.NewWebhook()
		w.ID, w.DeniedPercent = 2, 10
		c.change(&w)
		tb.facts.Webhooks = append(tb.facts.Webhooks, w)
		tb.facts.Minute = map[string]Minute{"charges": {100, 20}}
		if got := len(tb.evaluate(0).Changes.Events) > 0; got != c.want {
			t.Errorf("%s: an alert: %t, want %t", c.name, got, c.want)
		}
	}
}
