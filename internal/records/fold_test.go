package records

import (
	"fmt"
	"reflect"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/scope"
)

func TestLog_FoldsAFloodOfOneBucket(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 0)}, nil)
	const flood = 20_000
	for range flood {
		f.ask(user("bad"))
	}
	for range 3 {
		f.ask(user("other"))
	}
	total, bad := int64(0), 0
	for _, e := range f.events() {
		if total += 1 + e.Folded; e.Key == "user:bad" {
			bad++
		}
	}
	// The flood takes less than a second or more; each second has foldAbove events and one for the rest.
	if total != flood+3 || bad < foldAbove+1 {
		t.Fatalf("%d denials in %d events", total, bad)
	}
	if got := f.account.Totals(); got.Folded != flood-int64(bad) {
		t.Errorf("the account says %+v for %d events of the flood", got, bad)
	}
}

// The entities of a bucket may be many, of which some are drawn. Denials of those that are and of those that are not
// stand for different numbers of requests, so no event stands for both.
func TestLog_FoldsDrawnAndOtherDenialsApart(t *testing.T) {
	r := perUser("all", 0)
	r.Scope = scope.Global
	f := newFixture(t, []rules.Rule{r}, func(o *Options) { o.Rate = 50 })
	const users, each = 40, 25
	want := map[bool]int64{}
	for range each {
		for i := range users {
			q := user(fmt.Sprintf("u%d", i))
			f.ask(q)
			want[draw(&decide.Decision{Question: &q, Answer: &decide.Answer{}}, 50, match.Options{}.Network)]++
		}
	}
	got, folded := map[bool]int64{}, map[bool]bool{}
	for _, e := range f.events() {
		got[e.Drawn] += 1 + e.Folded
		folded[e.Drawn] = folded[e.Drawn] || e.Folded > 0
	}
	if !reflect.DeepEqual(got, want) || len(want) != 2 || len(folded) != 2 || !folded[true] || !folded[false] {
		t.Errorf("the events stand for %v denials by whether they are drawn, want %v; folded %v", got, want, folded)
	}
}

func TestFolds_EndASecondWithOneEvent(t *testing.T) {
	f := newFolds()
	d := &decide.Decision{Answer: &decide.Answer{Verdict: decide.Denied,
		Limits: []decide.LimitAnswer{{Key: "{user:1}|1|fw", Weight: 1}}}}
	write := func(b []byte) []byte { return appendRaw(b, drawn{}, d) }
	for second := range 3 {
		single, held := 0, 0
		for range 100 {
			if is, _ := f.hold(d, drawn{}, write); is {
				held++
			} else {
				single++
			}
		}
		var raw []byte
		f.end(false, func(r []byte) { raw = append(raw, r...) })
		var e rawEvent
		e.readRaw(raw)
		if single != foldAbove || held != 90 || e.folded != 89 {
			t.Errorf("second %d: %d alone, %d held, folded %d", second, single, held, e.folded)
		}
	}
	// What differs is not folded together: an event has one operation and one status.
	for i := range 100 {
		d.Answer.Op = []limiter.Op{limiter.OpTake, limiter.OpCharge, limiter.OpRenew}[i%3]
		d.Answer.Verdict = []decide.Verdict{decide.Denied, decide.Shed}[i%2]
		if is, _ := f.hold(d, drawn{}, write); is != (i >= 6*foldAbove) {
			t.Fatalf("denial %d of %v, %v: folded is %v", i, d.Answer.Op, d.Answer.Verdict, is)
		}
	}
	d.Answer.Op, d.Answer.Verdict = limiter.OpTake, decide.Denied
	f.end(false, func([]byte) {})
	for i := range int64(100) {
		d.Answer.Limits[0].Weight = i
		if is, _ := f.hold(d, drawn{}, write); is {
			t.Fatal("denials of different weights are folded")
		}
	}
}

// While the counter store is unavailable, a rule that then denies can deny a flood.
func TestLog_FoldsWhatAFailModeDenies(t *testing.T) {
	r := perUser("strict", 2)
	r.FailMode = rules.FailClosed
	f := newFixture(t, []rules.Rule{r}, nil)
	f.store.broken.Store(true)
	const n = 1000
	for range n {
		if f.ask(user("42")).Allowed() {
			t.Fatal("allowed")
		}
	}
	events, sum := f.events(), int64(0)
	for _, e := range events {
		sum += 1 + e.Folded
		if e.Degraded != rules.FailClosed || e.Status != 503 || e.Key != "user:42" {
			t.Fatalf("%+v", e)
		}
	}
	if sum != n || len(events) > 30 {
		t.Errorf("%d events stand for %d denials, want at most 30 for %d", len(events), sum, n)
	}
}

// A denial that comes while the log closes is in the account: none waits for the end of a second that never comes.
func TestLog_CountsFloodsThatOutliveIt(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("strict", 1)}, nil)
	f.ask(user("42"))
	f.close()
	const after = 50
	for range after {
		f.ask(user("42"))
	}
	got := f.account.Totals()
	if got.Dropped[Shutdown.String()] != after || got.Produced != after+1 || got.Folded != 0 {
		t.Errorf("of %d denials after the end the account says %+v", after, got)
	}
}
