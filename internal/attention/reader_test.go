package attention_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/match"
)

// world has canned facts, and notes what is read of them.
type world struct {
	now     time.Time
	live    history.Live
	keys    []history.KeyDenials
	past    map[int64][]rules.Revision
	running []incident.Incident
	set     *match.Set
	err     error
	reads   []int64 // rules whose versions were read
	asked   int     // for figures
	partial error   // of figures
	hang    time.Duration
}

func (w *world) Live(context.Context) history.Live { return w.live }

func (w *world) DeniedKeys(context.Context) ([]history.KeyDenials, error) { return w.keys, nil }

func (w *world) RuleHistory(_ context.Context, id int64, _ int, _ int64) ([]rules.Revision, error) {
	w.reads = append(w.reads, id)
	w.now = w.now.Add(w.hang)
	return w.past[id], w.err
}

func (w *world) Incidents(context.Context, incident.Query) ([]incident.Incident, error) {
	return w.running, nil
}
func (w *world) Running(context.Context) ([]incident.Incident, error) { return w.running, nil }

// Stats has minutes in which one of ten requests was denied, and from the wrong edit on nine.
func (w *world) Stats(_ context.Context, q history.Query) (history.Result, error) {
	w.asked++
	w.now = w.now.Add(w.hang)
	var points []history.Point
	for at := q.From.Truncate(q.Step); at.Before(q.To); at = at.Add(q.Step) {
		p := history.Point{At: at, Known: true, Figures: history.Figures{Allowed: 9, Denied: 1}}
		if !at.Before(wrongEdit.Truncate(q.Step)) {
			p.Figures = history.Figures{Allowed: 1, Denied: 9}
		}
		points = append(points, p)
	}
	return history.Result{Series: []history.Series{{Rule: q.Rule, Points: points}}, Partial: w.partial}, nil
}

var wrongEdit = now.Add(-3 * time.Minute)

// newWorld has many rules, of which the first two deny. The first was changed a few minutes ago.
func newWorld(t *testing.T, many int) (*world, *attention.Reader) {
	t.Helper()
	w := &world{now: now, past: map[int64][]rules.Revision{}}
	var list []rules.Rule
	for i := range int64(many) {
		r := rules.Rule{ID: i + 1, Name: fmt.Sprint("rule-", i+1), Scope: "user", Algorithm: "fixed_window", Limit: 60,
			WindowMS: 60_000, Version: 1, IsActive: true, UpdatedAt: now.Add(-30 * 24 * time.Hour),
			FailMode: []string{rules.FailOpen, rules.FailClosed, rules.FailLocal}[i%3]}
		if i == 0 {
			r.Limit, r.Version, r.UpdatedAt = 3, 3, now.Add(-time.Minute)
			was := r.Clone()
			was.Limit, was.Version = 60, 1
			w.past[1] = []rules.Revision{
				{Version: 3, At: r.UpdatedAt, Changes: rules.Diff(&rules.Rule{}, &rules.Rule{Description: "words"})},
				{Version: 2, At: wrongEdit, Actor: rules.Actor{Name: "API"}, Changes: rules.Diff(&was, &r)},
				{Version: 1, At: now.Add(-30 * 24 * time.Hour), Changes: rules.Diff(nil, &was)}}
		}
		list = append(list, r)
	}
	var err error
	if w.set, err = match.Compile(list, 7, match.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rule-1", "rule-2"} {
		l := history.RuleLive{Name: name, Minute: history.Figures{Allowed: 6, Denied: 54}}
		for at := now.Add(-10 * time.Minute); at.Before(now); at = at.Add(10 * time.Second) {
			p := history.Point{At: at, Figures: history.Figures{Allowed: 9, Denied: 1}}
			if !at.Before(wrongEdit) {
				p.Figures = history.Figures{Allowed: 1, Denied: 9}
			}
			l.Tens = append(l.Tens, p)
		}
		w.live.Rules = append(w.live.Rules, l)
	}
	return w, &attention.Reader{Fleet: w, Stats: w, Past: w, Incidents: w, Set: func() *match.Set { return w.set },
		Now: func() time.Time { return w.now }}
}

// Of ten thousand rules, the versions of the one that denies and was changed are read, once.
func TestReader_ReadsTheVersionsOfFewRulesOnce(t *testing.T) {
	w, r := newWorld(t, 10_000)
	for range 5 {
		got := r.Report(t.Context())
		if len(got.Findings) != 1 || got.Findings[0].Rise == nil || got.Findings[0].Rise.Version != 2 ||
			got.Findings[0].Rise.Times() != 9 || got.Findings[0].Rule.Name != "rule-1" {
			t.Fatalf("%+v", got.Findings)
		}
		w.now = w.now.Add(2 * time.Second)
	}
	if len(w.reads) != 1 || w.asked > 0 {
		t.Errorf("the versions of rules %v were read, and figures %d times", w.reads, w.asked)
	}
}

// What was decided around an older edit is read once it does not change any more, and then remembered.
func TestReader_RemembersWhatWasDecidedAroundAnEdit(t *testing.T) {
	w, r := newWorld(t, 3)
	w.now = now.Add(20 * time.Minute)
	for range 3 {
		if got := r.Report(t.Context()); len(got.Findings) != 1 || got.Findings[0].Rise == nil {
			t.Fatalf("%+v", got)
		}
		w.now = w.now.Add(time.Second)
	}
	if w.asked != 1 {
		t.Errorf("figures were read %d times", w.asked)
	}
	w.now = now.Add(25 * time.Hour)
	if rise, err := r.Rise(t.Context(), &w.set.At(0).Rule); rise != nil || err != nil {
		t.Errorf("a day later: %+v, %v", rise, err)
	}
}

// Without the rules database a rise is not known, and the report says why. It asks again some seconds later.
// The figures of an edit younger than a minute are those since it, also in words.
func TestReader_KnowsThatAnEditIsYoung(t *testing.T) {
	for ago, want := range map[time.Duration]string{3 * time.Minute: "in the last minute",
		40 * time.Second: "since the last edit"} {
		w, r := newWorld(t, 10)
		w.now = wrongEdit.Add(ago)
		if got, err := r.Rise(t.Context(), &w.set.Get(1).Rule); err != nil || got == nil || got.When() != want {
			t.Errorf("%s after the edit: %+v, %v, want %s", ago, got, err, want)
		}
	}
}

func TestReader_SaysThatEditsAreUnknown(t *testing.T) {
	w, r := newWorld(t, 3)
	w.err = rules.ErrUnavailable
	for range 3 {
		if got := r.Report(t.Context()); got.EditsErr == nil || len(got.Findings) != 0 {
			t.Fatalf("%+v", got)
		}
		w.now = w.now.Add(time.Second)
	}
	if len(w.reads) != 1 {
		t.Errorf("a database that fails was asked %d times", len(w.reads))
	}
	w.err, w.now = nil, w.now.Add(5*time.Second)
	if got := r.Report(t.Context()); got.EditsErr != nil || len(got.Findings) != 1 {
		t.Errorf("%+v", got)
	}
}

// manyEdited has ten rules that deny, each with 19 edits since begin.
func manyEdited(t *testing.T, begin time.Time) (*world, *attention.Reader) {
	t.Helper()
	w, r := newWorld(t, 10)
	w.live.Rules = nil
	for i := range w.set.Len() {
		rule := &w.set.At(i).Rule
		rule.Version, rule.UpdatedAt = 20, begin.Add(20*time.Second)
		was := rule.Clone()
		was.Limit = 1000
		w.past[rule.ID] = nil
		for v := int64(20); v > 1; v-- {
			w.past[rule.ID] = append(w.past[rule.ID], rules.Revision{Version: v,
				At: begin.Add(time.Duration(v) * time.Second), Changes: rules.Diff(&was, rule)})
		}
		w.live.Rules = append(w.live.Rules, history.RuleLive{Name: rule.Name,
			Minute: history.Figures{Allowed: 6, Denied: 54}})
	}
	return w, r
}

// The overview asks every second while it is open. What was decided around edits ten minutes ago may still change, but
// hardly in a second.
func TestReader_SharesWhatMayStillChange(t *testing.T) {
	w, r := manyEdited(t, now.Add(-10*time.Minute))
	for range 10 {
		if got := r.Report(t.Context()); got.EditsErr != nil {
			t.Fatalf("%+v", got)
		}
		w.now = w.now.Add(time.Second)
	}
	if w.asked != 190 {
		t.Errorf("for 190 edits figures were read %d times in ten seconds", w.asked)
	}
}

// A database that hangs delays a report once, and not for each rule.
func TestReader_WaitsOnceForADatabaseThatHangs(t *testing.T) {
	w, r := manyEdited(t, now.Add(-time.Hour))
	w.partial, w.hang = rules.ErrUnavailable, 1500*time.Millisecond
	began := w.now
	if got := r.Report(t.Context()); got.EditsErr == nil {
		t.Errorf("%+v", got)
	}
	if w.asked != 1 || w.now.Sub(began) > 2*w.hang {
		t.Errorf("figures were read %d times, which took %s", w.asked, w.now.Sub(began))
	}
}

func TestReader_AnOutageHasTheFailModesInForce(t *testing.T) {
	w, r := newWorld(t, 10)
	began := now.Add(-5 * time.Second)
	w.live.Rules[0].Minute.Degraded, w.live.Rules[0].Minute.DegradedDenied = 40, 15 // of more denials
	w.live.Nodes = []history.NodeLive{
		{Status: history.Status{Address: "a", Breakers: []history.Breaker{{Server: "r1", State: "open"}, {Server: "r2",
			State: "closed"}}}},
		{Status: history.Status{Address: "b"}}, {Status: history.Status{Address: "c"}, Silent: true}}
	w.running = []incident.Incident{{Kind: incident.Database, Begin: now.Add(-time.Hour)},
		{Kind: incident.Breaker, Node: "a", Begin: began}}
	var got *attention.Outage
	for _, f := range r.Report(t.Context()).Findings {
		if f.Outage != nil {
			got = f.Outage
		}
	}
	want := attention.Outage{Since: began, Open: 4, Closed: 3, Local: 3, Down: 1, Servers: 2, On: 1, Nodes: 2, Denied: 15}
	if got == nil || *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
