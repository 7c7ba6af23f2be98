package evaluate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/alerts"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

const quiet = 15 * time.Minute

// table is a table of states and webhooks on which a test evaluates.
type table struct {
	t      testing.TB
	states *States
	stored map[string]alerts.State
	facts  Facts
	seq    int64
	ids    int64
	// life is that of reports.
	life time.Duration
}

func newTable(t testing.TB) *table {
	w := alerts.NewWebhook()
	w.ID, w.Name = 1, "pager"
	return &table{t: t, life: 30 * time.Minute, states: &States{}, stored: map[string]alerts.State{},
		facts: Facts{Now: noon, Quiet: quiet, Webhooks: []alerts.Webhook{w},
			Rules: map[string]int64{"charges": 7, "search": 8}}}
}

// evaluate evaluates after a while, keeps the result, and forgets the facts of the moment.
func (tb *table) evaluate(after time.Duration) Result {
	tb.t.Helper()
	tb.facts.Now = tb.facts.Now.Add(after)
	was := tb.dump(tb.states)
	out := Evaluate(tb.states, &tb.facts)
	if diff := cmp.Diff(was, tb.dump(tb.states)); diff != "" {
		tb.t.Fatalf("the evaluation changed its argument:\n%s", diff)
	}
	tb.states = out.States
	for _, s := range out.Changes.States {
		if tb.stored[s.Subject] = s; s.Data == nil {
			delete(tb.stored, s.Subject)
		}
	}
	tb.facts.Reports, tb.facts.Sightings, tb.facts.Idle = nil, nil, nil
	return out
}

// dump is what is remembered, as text.
func (tb *table) dump(st *States) string {
	text, err := json.Marshal([]any{st.subjects, st.budgets, st.ofKind})
	if err != nil {
		tb.t.Fatal(err)
	}
	return string(text)
}

// restart forgets everything that is not stored.
func (tb *table) restart() {
	list := make([]alerts.State, 0, len(tb.stored))
	for _, s := range tb.stored {
		list = append(list, s)
	}
	tb.states = LoadStates(list, tb.facts.Now)
}

// report adds the report of a node.
func (tb *table) report(node, state string, s alerts.Subject, d Details) {
	tb.seq++
	tb.ids++
	sighting := Sighting{Subject: s, State: state, Node: node, Seq: tb.seq, At: tb.facts.Now.UnixMilli(),
		LifeMS: tb.life.Milliseconds(), Details: d}
	sighting.Address = node + ":8080"
	r := sighting.Report(fmt.Sprintf("%s-%d", node, tb.seq))
	r.ID = tb.ids
	tb.facts.Reports = append(tb.facts.Reports, r)
}

// usage is the subject of a key at 80 % of the rule charges.
func usageOf(key string) alerts.Subject {
	return alerts.Subject{Kind: alerts.KindKeyUsage, Rule: "charges", Key: key, Level: "80"}
}

var used = Details{RuleID: 7, Numbers: map[string]int64{"used": 80, "limit": 100, "percent": 80}}

func stateOf(events []alerts.Event) (out []string) {
	for _, e := range events {
		out = append(out, string(e.Kind)+" "+e.State)
	}
	return out
}

// body is the body of a message.
func body(t testing.TB, m *alerts.Message) (b struct {
	Type string
	Data alerts.Data
}) {
	t.Helper()
	if err := json.Unmarshal(m.Body, &b); err != nil {
		t.Fatalf("%s: %v", m.Body, err)
	}
	return b
}

func TestEvaluate_TellsABeginningAndAnEndOnce(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.report("b", alerts.On, usageOf("user:42"), used)
	r := tb.evaluate(time.Second)
	if got, want := stateOf(r.Changes.Events), []string{"key_usage on"}; !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
	if len(r.Changes.Messages) != 1 || !slices.Equal(r.Changes.Read, []int64{1, 2}) {
		t.Fatalf("%d messages, reports %d were read", len(r.Changes.Messages), r.Changes.Read)
	}
	m := &r.Changes.Messages[0]
	b := body(t, m)
	const text = "The key user:42 reached 80% of its limit of the rule charges at 12:00:00 UTC: 80 of 100."
	if m.Type != "key_usage" || b.Data.Text != text || b.Data.Path != "/console/rules/7" || b.Data.State != "on" {
		t.Errorf("a message of the type %s: %+v", m.Type, b.Data)
	}
	if r := tb.evaluate(time.Second); len(r.Changes.Events)+len(r.Changes.States) > 0 {
		t.Errorf("nothing happened, and %+v changed", r.Changes)
	}
	tb.report("a", alerts.Off, usageOf("user:42"), Details{})
	if r := tb.evaluate(time.Second); len(r.Changes.Events) > 0 {
		t.Errorf("node b still sees it, but it was told: %+v", r.Changes.Events)
	}
	tb.report("b", alerts.Off, usageOf("user:42"), Details{})
	r = tb.evaluate(time.Minute)
	if got, want := stateOf(r.Changes.Events), []string{"key_usage off"}; !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
	if n := r.Changes.Events[0].Data.Numbers["seconds"]; n != 63 {
		t.Errorf("it lasted %d s, want 63", n)
	}
	tb.evaluate(quiet)
	if len(tb.stored) > 0 {
		t.Errorf("after the quiet time %d states are left: %v", len(tb.stored), tb.stored)
	}
}

func TestEvaluate_CountsWithinTheQuietTime(t *testing.T) {
	tb := newTable(t)
	flip := func(state string) []alerts.Event {
		tb.report("a", state, usageOf("user:42"), used)
		return tb.evaluate(30 * time.Second).Changes.Events
	}
	var told []string
	for range 14 {
		told = append(told, stateOf(flip(alerts.On))...)
		told = append(told, stateOf(flip(alerts.Off))...)
	}
	if want := []string{"key_usage on", "key_usage off"}; !slices.Equal(told, want) {
		t.Fatalf("in %s it was told %q, want %q", 14*time.Minute, told, want)
	}
	if events := flip(alerts.On); len(events) > 0 {
		t.Fatalf("told in the quiet time: %+v", events)
	}
	tb.restart()
	events := tb.evaluate(time.Minute).Changes.Events // the quiet time is over
	if len(events) != 1 || events[0].State != alerts.On || events[0].Data.Suppressed != 13 {
		t.Fatalf("after the quiet time: %+v, want one that 13 were not sent", events)
	}
	if since := events[0].Data.Since; since.After(events[0].At.Add(-time.Minute)) {
		t.Errorf("on since %s, told at %s", since, events[0].At)
	}
}

func TestEvaluate_EndsWhatIsNotSeenAgain(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(0)
	tb.restart()
	if r := tb.evaluate(29 * time.Minute); len(r.Changes.Events) > 0 {
		t.Fatalf("over too early: %+v", r.Changes.Events)
	}
	tb.report("a", alerts.On, usageOf("user:42"), used)
	if r := tb.evaluate(0); len(r.Changes.Events) > 0 {
		t.Fatalf("seen again and told: %+v", r.Changes.Events)
	}
	if r := tb.evaluate(29 * time.Minute); len(r.Changes.Events) > 0 {
		t.Fatalf("over too early: %+v", r.Changes.Events)
	}
	if got := stateOf(tb.evaluate(2 * time.Minute).Changes.Events); !slices.Equal(got, []string{"key_usage off"}) {
		t.Errorf("the node is gone, and it was told %q", got)
	}
}

func TestEvaluate_OldReportsThatComeBackCountForNothing(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	old := slices.Clone(tb.facts.Reports)
	tb.evaluate(0)
	tb.report("a", alerts.Off, usageOf("user:42"), Details{})
	tb.report("a", alerts.On, usageOf("user:42"), used)
	old = append(old, tb.facts.Reports...)
	tb.evaluate(0)
	tb.facts.Reports = old
	if r := tb.evaluate(0); len(r.Changes.Events)+len(r.Changes.Messages) > 0 {
		t.Errorf("told again: %+v", r.Changes.Events)
	}
}

func TestEvaluate_TheSameEvaluationGivesTheSameIDs(t *testing.T) {
	tb := newTable(t)
	for i := range 7 {
		tb.report("a", alerts.On, usageOf(fmt.Sprintf("user:%d", i)), used)
	}
	tb.report("a", alerts.On, alerts.Subject{Kind: alerts.KindSetRefused}, Details{})
	facts, states := tb.facts, tb.states
	first := Evaluate(states, &facts)
	facts.Now = facts.Now.Add(3 * time.Second)
	second := Evaluate(states, &facts)
	var a, b []string
	for i := range first.Changes.Messages {
		a = append(a, first.Changes.Messages[i].ID, first.Changes.Events[i].UID)
		b = append(b, second.Changes.Messages[i].ID, second.Changes.Events[i].UID)
	}
	if len(a) != 4 || !slices.Equal(a, b) {
		t.Errorf("ids %q and %q", a, b)
	}
}

func TestEvaluate_ManyAreOneSummary(t *testing.T) {
	tb := newTable(t)
	for i := range 12 {
		tb.report("a", alerts.On, usageOf(fmt.Sprintf("user:%d", i)), used)
	}
	tb.report("a", alerts.On, alerts.Subject{Kind: alerts.KindFailModeEngaged}, Details{Cause: "timeout"})
	r := tb.evaluate(0)
	if len(r.Changes.Events) != 13 || len(r.Changes.Messages) != 2 {
		t.Fatalf("%d events, %d messages", len(r.Changes.Events), len(r.Changes.Messages))
	}
	b := body(t, &r.Changes.Messages[0])
	if b.Type != "summary" || b.Data.Count != 12 || len(b.Data.Alerts) != shownAlerts || b.Data.Kind != "key_usage" {
		t.Errorf("the summary is %+v", b)
	}
	if want := "12 alerts of the kind key_usage began."; b.Data.Text != want {
		t.Errorf("its text is %q, want %q", b.Data.Text, want)
	}
	// Those that follow in the same minute wait for its end.
	tb.report("a", alerts.On, usageOf("user:20"), used)
	if r := tb.evaluate(10 * time.Second); len(r.Changes.Events) != 1 || len(r.Changes.Messages) != 0 {
		t.Fatalf("%d events, %d messages; want 1 that waits", len(r.Changes.Events), len(r.Changes.Messages))
	}
	tb.restart()
	r = tb.evaluate(51 * time.Second)
	if len(r.Changes.Messages) != 1 || body(t, &r.Changes.Messages[0]).Data.Count != 1 {
		t.Fatalf("at the end of the minute: %+v", r.Changes.Messages)
	}
	tb.report("a", alerts.On, usageOf("user:21"), used)
	if r := tb.evaluate(time.Minute); len(r.Changes.Messages) != 1 || r.Changes.Messages[0].Type != "key_usage" {
		t.Errorf("after the flood: %+v", r.Changes.Messages)
	}
}

func TestEvaluate_BoundsTheSubjectsOfAKind(t *testing.T) {
	tb := newTable(t)
	for i := range maxSubjects + 50 {
		tb.report("a", alerts.On, usageOf(fmt.Sprintf("user:%d", i)), used)
	}
	tb.report("a", alerts.On, alerts.Subject{Kind: alerts.KindSetRefused}, Details{})
	r := tb.evaluate(0)
	if len(r.Changes.Events) != maxSubjects+1 || r.Counts.Ignored[alerts.KindKeyUsage] != 50 {
		t.Fatalf("%d events, ignored %v", len(r.Changes.Events), r.Counts.Ignored)
	}
	// One that is over gives way.
	tb.report("a", alerts.Off, usageOf("user:3"), Details{})
	tb.report("a", alerts.On, usageOf("user:new"), used)
	r = tb.evaluate(0)
	if got := stateOf(r.Changes.Events); !slices.Equal(got, []string{"key_usage off", "key_usage on"}) {
		t.Errorf("told %q", got)
	}
	if len(r.States.subjects) != maxSubjects+1 || r.States.ofKind[alerts.KindKeyUsage] != maxSubjects {
		t.Errorf("%d subjects, counted %v", len(r.States.subjects), r.States.ofKind)
	}
}

func TestEvaluate_DenialsByTheThresholdsOfEachWebhook(t *testing.T) {
	tb := newTable(t)
	second := alerts.NewWebhook()
	second.ID, second.Name, second.DeniedPercent, second.DeniedPerSecond = 2, "abuse", 0, 10
	tb.facts.Webhooks = append(tb.facts.Webhooks, second)
	minute := func(requests, denied int64) (out []string) {
		tb.facts.Minute = map[string]Minute{"charges": {requests, denied}, "gone": {100, 100}}
		r := tb.evaluate(quiet)
		for i := range r.Changes.Messages {
			out = append(out, fmt.Sprintf("%d %s", r.Changes.Messages[i].Webhook, body(t, &r.Changes.Messages[i]).Data.State))
		}
		return out
	}
	for _, c := range []struct {
		requests, denied int64
		want             []string
	}{
		{1, 1, nil}, {19, 19, nil}, {20, 9, nil}, {20, 10, []string{"1 on"}},
		{100, 41, nil}, {100, 39, []string{"1 off"}},
		{10_000, 599, nil}, {10_000, 600, []string{"2 on"}}, {10_000, 480, nil}, {10_000, 479, []string{"2 off"}},
		{600, 600, []string{"1 on", "2 on"}}, {0, 0, []string{"1 off", "2 off"}},
	} {
		if got := minute(c.requests, c.denied); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d denied: told %q, want %q", c.denied, c.requests, got, c.want)
		}
	}
	if minute(600, 600) == nil {
		t.Fatal("nothing was told")
	}
	tb.facts.Minute = nil
	if r := tb.evaluate(time.Hour); len(r.Changes.Events) > 0 {
		t.Errorf("the figures are unknown, and it was told %+v", r.Changes.Events)
	}
	tb.facts.Minute = map[string]Minute{"charges": {600, 600}}
	tb.facts.Webhooks = tb.facts.Webhooks[:1]
	r := tb.evaluate(0)
	if got := stateOf(r.Changes.Events); !slices.Equal(got, []string{"rule_denials off"}) {
		t.Errorf("nobody asks for the threshold any more: told %q", got)
	}
}

func TestEvaluate_DenialsWithoutAWebhookAreForTheConsole(t *testing.T) {
	tb := newTable(t)
	tb.facts.Webhooks = nil
	tb.facts.Minute = map[string]Minute{"charges": {100, 50}}
	r := tb.evaluate(0)
	if len(r.Changes.Events) != 1 || len(r.Changes.Messages) != 0 || len(r.States.active(10)) != 1 {
		t.Errorf("events %+v, messages %+v", r.Changes.Events, r.Changes.Messages)
	}
}

func TestEvaluate_IdleRules(t *testing.T) {
	tb := newTable(t)
	told := func() []string { return stateOf(tb.evaluate(quiet).Changes.Events) }
	tb.facts.Idle = map[string]bool{"charges": true, "search": false}
	if got := told(); !slices.Equal(got, []string{"rule_idle on"}) {
		t.Fatalf("told %q", got)
	}
	if got := told(); got != nil {
		t.Fatalf("told %q again", got)
	}
	tb.facts.Minute = map[string]Minute{"charges": {1, 0}}
	if got := told(); !slices.Equal(got, []string{"rule_idle off"}) {
		t.Errorf("a request matched: told %q", got)
	}
	tb.facts.Idle = map[string]bool{"charges": true} // the examination is older than the request
	if got := told(); got != nil {
		t.Errorf("told %q", got)
	}
}

func TestEvaluate_TheConditionsOfARuleEndWithIt(t *testing.T) {
	tb := newTable(t)
	fresh := usageOf("user:1")
	fresh.Rule = "new"
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.report("a", alerts.On, fresh, used) // a rule that this node has not heard of yet
	tb.evaluate(0)
	tb.facts.Rules = map[string]int64{"new": 9}
	if got := stateOf(tb.evaluate(goneAfter).Changes.Events); !slices.Equal(got, []string{"key_usage off"}) {
		t.Errorf("told %q", got)
	}
	if active := tb.states.active(10); len(active) != 1 || active[0].Subject.Rule != "new" {
		t.Errorf("on is %+v", active)
	}
}

func TestEvaluate_EndsAndBeginningsOfFailModesKeepTheirOrder(t *testing.T) {
	tb := newTable(t)
	fail := alerts.Subject{Kind: alerts.KindFailModeEngaged}
	tb.report("a", alerts.On, fail, Details{Cause: "connection refused"})
	r := tb.evaluate(0)
	if text := r.Changes.Events[0].Data.Text; !strings.HasSuffix(text, "cannot: connection refused.") {
		t.Errorf("the text is %q", text)
	}
	tb.evaluate(quiet)
	tb.report("a", alerts.Off, fail, Details{})
	tb.report("a", alerts.On, fail, Details{})
	r = tb.evaluate(0)
	var types []string
	for i := range r.Changes.Messages {
		types = append(types, r.Changes.Messages[i].Type)
	}
	if want := []string{"failmode_ended", "failmode_engaged"}; !slices.Equal(types, want) {
		t.Errorf("sent %q, want %q", types, want)
	}
	if r.Changes.Messages[0].Subject != r.Changes.Messages[1].Subject {
		t.Error("the two have different subjects, so nothing orders them")
	}
}

func TestEvaluate_AClockThatWasAheadSilencesNobody(t *testing.T) {
	tb := newTable(t)
	tb.facts.Now = noon.Add(30 * 24 * time.Hour)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(0)
	tb.facts.Now = noon // another node evaluates
	tb.restart()
	tb.report("a", alerts.Off, usageOf("user:42"), Details{})
	if got := stateOf(tb.evaluate(0).Changes.Events); !slices.Equal(got, []string{"key_usage off"}) {
		t.Fatalf("told %q", got)
	}
	tb.report("a", alerts.On, usageOf("user:42"), used)
	if got := stateOf(tb.evaluate(quiet).Changes.Events); !slices.Equal(got, []string{"key_usage on"}) {
		t.Errorf("told %q", got)
	}
}

func TestEvaluate_WhatItDoesNotUnderstandIsCountedAndRead(t *testing.T) {
	tb := newTable(t)
	for i, data := range []string{"", "{}", "null", `{"subject":{"kind":"key_usage"},"node":"a","state":"maybe"}`, "[1]"} {
		tb.facts.Reports = append(tb.facts.Reports, alerts.Report{ID: int64(i + 1), UID: fmt.Sprint(i), Data: []byte(data)})
	}
	r := tb.evaluate(0)
	if r.Counts.Unreadable != 5 || len(r.Changes.Read) != 5 || len(r.Changes.Events) != 0 {
		t.Errorf("%+v, %+v", r.Counts, r.Changes)
	}
	broken := []alerts.State{{Subject: "x", Data: []byte("{")}, {Subject: "y", Data: []byte("{}")},
		{Subject: budgetPrefix + "z", Data: []byte("[]")},
		{Subject: usageOf("k").String(), Data: []byte(`{"subject":{"kind":"key_usage","rule":"charges","key":"k","level":"80"},` +
			`"on":true,"seen":{"a":null}}`)}}
	st := LoadStates(broken, noon)
	tb.facts.Now = noon
	if r := Evaluate(st, &tb.facts); len(st.subjects) != 1 || len(r.States.active(10)) > 0 {
		t.Errorf("read %v, on is %v", st.subjects, r.States.active(10))
	}
}

// A summary of ends does not read like new alerts.
func TestEvaluate_ASummarySaysWhatEnded(t *testing.T) {
	tb := newTable(t)
	told := func(after time.Duration, state string, keys ...int) string {
		for _, i := range keys {
			tb.report("a", state, usageOf(fmt.Sprintf("user:%d", i)), used)
		}
		if state == alerts.Off {
			tb.report("a", alerts.On, usageOf("user:99"), used)
		}
		r := tb.evaluate(after)
		if len(r.Changes.Messages) != 1 {
			t.Fatalf("messages %+v", r.Changes.Messages)
		}
		return body(t, &r.Changes.Messages[0]).Data.Text
	}
	if got, want := told(0, alerts.On, 1, 2, 3, 4, 5, 6, 7), "7 alerts of the kind key_usage began."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := "7 alerts of the kind key_usage: 1 began, 6 ended."
	if got := told(2*time.Minute, alerts.Off, 1, 2, 3, 4, 5, 6); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := summaryText(alerts.KindKeyUsage, 6, 6), "6 alerts of the kind key_usage ended."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Keys are many, and do not hide what all nodes have.
func TestStates_ActiveBeginsWithWhatIsAboutAllNodes(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, alerts.Subject{Kind: alerts.KindFailModeEngaged}, Details{Cause: "timeout"})
	tb.evaluate(0)
	for i := range 12 {
		tb.report("a", alerts.On, usageOf(fmt.Sprintf("user:%d", i)), used)
	}
	r := tb.evaluate(time.Second)
	active := r.States.active(10)
	if len(active) != 10 || active[0].Kind != alerts.KindFailModeEngaged || active[1].Kind != alerts.KindKeyUsage {
		t.Errorf("%d are on, the first is %+v", len(active), active[0])
	}
}

func TestStates_WhatTheDatabaseLostIsStoredAgainAndNotTold(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:1"), used)
	tb.evaluate(0)
	lost := make([]alerts.State, 0, 1)
	for _, s := range tb.stored {
		lost = append(lost, s)
	}
	tb.report("a", alerts.Off, usageOf("user:1"), used)
	tb.report("a", alerts.On, usageOf("user:2"), used)
	tb.evaluate(time.Second)
	back := LoadStates(lost, tb.facts.Now) // as it was before the second evaluation
	back.adopt(tb.states)
	tb.states = back
	r := tb.evaluate(time.Second)
	if len(r.Changes.Events)+len(r.Changes.Messages) > 0 {
		t.Errorf("told again: %+v", r.Changes.Events)
	}
	names := map[string]bool{}
	for _, s := range r.Changes.States {
		names[s.Subject] = true
	}
	if !names[usageOf("user:1").String()] || !names[usageOf("user:2").String()] {
		t.Errorf("stored again: %v", names)
	}
	if active := r.States.active(10); len(active) != 1 || active[0].Subject.Key != "user:2" {
		t.Errorf("on is %+v", active)
	}
}

// The texts of alerts about regions, and the page that shows them.
func TestEvaluate_RegionsInWords(t *testing.T) {
	cut := alerts.Subject{Kind: alerts.KindRegionCutOff, Level: "eu and us"}
	old := alerts.Subject{Kind: alerts.KindRegionSetOld, Level: "us"}
	lacks := Details{Numbers: map[string]int64{"version": 8, "elsewhere": 12}}
	for _, c := range []struct {
		s     alerts.Subject
		state string
		want  string
	}{
		{cut, alerts.On, "The regions eu and us have been cut off from each other since 12:00:00 UTC."},
		{cut, alerts.Off, "The regions eu and us hear each other again."},
		{old, alerts.On, "The region us has lacked edits of the rules for over five minutes since 12:00:00 UTC: it has " +
			"version 8, others have 12."},
		{old, alerts.Off, "The region us has the edits of the rules that it lacked."},
	} {
		s := &subject{Subject: c.s, Since: noon.UnixMilli(), Figures: noon.UnixMilli()}
		if got := textOf(s, c.state, &lacks); got != c.want || pathOf(&c.s, &lacks) != "/console/regions" {
			t.Errorf("%s %s: %q, %s", c.s.Kind, c.state, got, pathOf(&c.s, &lacks))
		}
	}
}

// While all subjects of a kind are on, only the first further sighting looks at them for room: 10,000 tokens that
// expire soon are seen every second. A subject that ends makes room in the same evaluation.
func TestEvaluate_LooksForRoomOnce(t *testing.T) {
	tb := newTable(t)
	for i := range maxSubjects {
		tb.report("a", alerts.On, usageOf(fmt.Sprint(i)), used)
	}
	states := tb.evaluate(time.Second).States
	e := evaluation{Facts: &tb.facts, states: states.clone(), changed: map[string]bool{}, owned: map[string]bool{},
		full: map[alerts.Kind]bool{}, counts: Counts{Ignored: map[alerts.Kind]int64{}}}
	e.see(&Sighting{Subject: usageOf("more"), State: alerts.On, Node: "a"})
	if !e.full[alerts.KindKeyUsage] || e.counts.Ignored[alerts.KindKeyUsage] != 1 {
		t.Errorf("a further one: full is %v, ignored %v", e.full, e.counts.Ignored)
	}
	e.see(&Sighting{Subject: usageOf("7"), State: alerts.Off, Node: "a"})
	e.see(&Sighting{Subject: usageOf("more"), State: alerts.On, Node: "a"})
	if name := usageOf("more").String(); e.states.subjects[name] == nil {
		t.Error("no room after one has ended")
	}
}
