package records

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/scope"
)

// Whatever is decided by however many, in any order, at any rate, and wherever seconds end: produced is what was
// delivered, and a reader counts what was decided. Denials are all there; what is allowed is there if its entity is
// drawn; and what is drawn says of itself that it is.
func TestLog_TotalsAreThoseOfTheWriters(t *testing.T) {
	type step struct{ user, weight int }
	rapid.Check(t, func(rt *rapid.T) {
		percent := rapid.SampledFrom([]float64{0, 1, 30, 100}).Draw(rt, "percent")
		everybody := perUser("all", rapid.Int64Range(0, 60).Draw(rt, "limit of all"))
		everybody.Scope = scope.Global
		f := newFixture(t, []rules.Rule{perUser("r", rapid.Int64Range(0, 30).Draw(rt, "limit")), everybody},
			func(o *Options) { o.Rate = percent })
		steps := rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 5).Draw(rt, "user"), rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2}).Draw(rt, "weight")}
		})
		plans := rapid.SliceOfN(rapid.SliceOfN(steps, 0, 60), 1, 4).Draw(rt, "callers")
		var all sync.WaitGroup
		var mu sync.Mutex
		want := map[string]int64{}
		for _, plan := range plans {
			all.Go(func() {
				for _, s := range plan {
					if s.weight == 0 {
						f.log.endFolds(false) // a second ends here
						continue
					}
					q := user(fmt.Sprintf("u%d", s.user))
					q.Weight = int64(s.weight)
					a := f.ask(q)
					isDrawn := draw(&decide.Decision{Question: &q, Answer: a}, percent, match.Options{}.Network)
					if a.Allowed() && !isDrawn {
						continue
					}
					key := a.Limits[max(0, a.Strictest)].Display()
					mu.Lock()
					want[fmt.Sprint(key, a.Allowed(), isDrawn, s.weight)]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		got := map[string]int64{}
		for _, e := range f.events() {
			got[fmt.Sprint(e.Key, e.Allowed, e.Drawn, e.Weight)] += 1 + e.Folded
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("the log has %v, decided were %v", got, want)
		}
	})
}

// 20,000 denials a second of one key are at most 15 events a second, and none is lost.
func TestLog_AFloodOfOneKeyIsFewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		account := &Account{}
		sink := &sinkOf{account: account}
		l, err := New(Options{Sink: sink, Account: account, Rate: 30, Address: AddressPrefix,
			Secret: func() []byte { return nil }, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		const seconds, rate, slice = 5, 20_000, 10 * time.Millisecond
		limits := []decide.LimitAnswer{{Rule: "r", Key: "{global}|1|fw", Weight: 1, Known: true}}
		denied := decide.Answer{Op: limiter.OpTake, Verdict: decide.Denied, Limits: limits}
		for i := range seconds * rate {
			q := user(fmt.Sprintf("u%d", i%100)) // some are drawn, the others are not
			denied.At = time.Now().UnixMilli()
			l.ObserveDecision(&decide.Decision{Question: &q, Answer: &denied})
			if i%(rate/100) == 0 {
				<-time.After(slice)
			}
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := &fixture{t: t, sink: sink, account: account, log: l}
		sum, in := int64(0), map[int64]int{}
		for _, e := range f.events() {
			sum += 1 + e.Folded
			if in[(e.TS-began.UnixMilli())/1000]++; in[(e.TS-began.UnixMilli())/1000] > 15 {
				t.Fatal("more than 15 events in a second")
			}
		}
		if sum != seconds*rate || len(in) < seconds {
			t.Errorf("the events of %d seconds stand for %d denials, want %d", len(in), sum, seconds*rate)
		}
		if got := account.Totals(); got.Produced+got.Folded != seconds*rate {
			t.Errorf("the account says %+v", got)
		}
	})
}
