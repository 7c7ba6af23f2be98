package client

import (
	"sync"
	"sync/atomic"
	"testing"
)

// None is spent after the life of its lease, less a millisecond.
func TestNear_NothingIsSpentTooLate(t *testing.T) {
	for _, shrinks := range []bool{false, true} {
		l := newLease(&Answer{Granted: 100, SpendWithinMS: 50, Shrinks: shrinks}, 1, 7*ms)
		if _, ok := l.spend(7*ms + 49*ms - 1); ok == shrinks {
			t.Errorf("shrinks %v: before its end: %v", shrinks, ok)
		}
		if _, ok := l.spend(7*ms + 49*ms); ok {
			t.Errorf("shrinks %v: a request was spent at its end", shrinks)
		}
	}
}

// A lease that shrinks has at most its part at any time.
func TestNear_ALeaseThatShrinksHasItsPart(t *testing.T) {
	l := newLease(&Answer{Granted: 1000, SpendWithinMS: 100, Shrinks: true}, 1, 0)
	spent := 0
	for at := range 100 * ms / 100_000 {
		now := at * 100_000
		for range 3 {
			if _, ok := l.spend(now); ok {
				spent++
			}
		}
		if part := 1000 * float64(100*ms-now) / float64(100*ms); float64(leftOf(l.state.Load())) > part {
			t.Fatalf("at %d: %d left of a part of %v", now, leftOf(l.state.Load()), part)
		}
	}
	if got, ok := l.end(); !ok || got != int64(spent) || spent == 0 {
		t.Errorf("%d spent, want %d", got, spent)
	}
	if _, ok := l.spend(0); ok {
		t.Error("a lease that has ended was spent")
	}
}

// A caller that took a request and was interrupted until its part had drained does not admit it.
func TestNear_AnInterruptedCallerOfALeaseThatShrinks(t *testing.T) {
	l := newLease(&Answer{Granted: 1000, SpendWithinMS: 100, Shrinks: true}, 1, 0)
	left, ok := l.spend(10 * ms)
	if !ok || !l.holds(left, 10*ms) || l.holds(left, 50*ms) {
		t.Errorf("%d left, %v; it holds at once: %v, later: %v", left, ok, l.holds(left, 10*ms), l.holds(left, 50*ms))
	}
	l.shrinks = false
	if !l.holds(left, 50*ms) {
		t.Error("a request of a lease that does not shrink is lost")
	}
}

// Many spend one lease: no more than it has, and what is left when it ends is spent by none.
func TestNear_OneLeaseIsSpentOnceByMany(t *testing.T) {
	for i := range 400 {
		l := newLease(&Answer{Granted: 300, SpendWithinMS: 1000, Shrinks: i%2 == 1}, 1, 0)
		var spent, told atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 50 {
					if _, ok := l.spend(1); ok {
						spent.Add(1)
					}
					if i == 0 && k == 25 {
						got, _ := l.end()
						told.Store(got)
					}
				}
			})
		}
		wg.Wait()
		if spent.Load() != told.Load() || told.Load() > 300 {
			t.Fatalf("%d spent, and the lease ended with %d", spent.Load(), told.Load())
		}
	}
}

// Facts make a question, whatever their order; what identifies the request or its client's program does not.
func TestNear_AQuestionIsAllItsFacts(t *testing.T) {
	var table nearTable
	table.start(100)
	full := func() Check {
		return Check{Key: "k", Limit: &Limit{Count: 1, WindowMS: 2, Burst: new(int64(3))}, Method: "m", Route: "r", Host: "h",
			IP: "i", User: "u", APIKey: "a", Tier: "t", Attributes: map[string]string{"a": "b", "c": "d"},
			Fields: map[string]int64{"x": 1, "y": 2}, Weight: new(int64(2)),
			Limits: []DirectLimit{{Name: "n", Key: "k", Limit: Limit{Count: 7}}}}
	}
	q := full()
	k := &nearKey{q: q.clone(), hash: table.hash(&q), weight: 2}
	table.add(k)
	same := full()
	same.UserAgent, same.TraceID = "curl", "1"
	if table.find(table.hash(&same), &same) != k {
		t.Error("the same question is not found")
	}
	for i, change := range []func(*Check){
		func(q *Check) { q.Key = "" }, func(q *Check) { q.Count = 9 }, func(q *Check) { q.Burst = nil },
		func(q *Check) { *q.Burst = 9 }, func(q *Check) { q.Method = "" }, func(q *Check) { q.Route = "" },
		func(q *Check) { q.Host = "" }, func(q *Check) { q.IP = "" }, func(q *Check) { q.User = "" },
		func(q *Check) { q.APIKey = "" }, func(q *Check) { q.Tier = "" }, func(q *Check) { q.Attributes["a"] = "" },
		func(q *Check) { q.Attributes = nil }, func(q *Check) { q.Fields["x"] = 9 }, func(q *Check) { q.Weight = nil },
		func(q *Check) { q.Limits = nil }, func(q *Check) { q.Limits[0].Count = 8 }, func(q *Check) { q.Limit = nil },
	} {
		other := full()
		change(&other)
		if q.same(&other, 2) || table.find(table.hash(&other), &other) == k {
			t.Errorf("change %d makes no other question", i)
		}
	}
	if table.remove(k); table.find(k.hash, &q) != nil || len(table.all()) != 0 {
		t.Error("a question that was removed is found")
	}
}

func TestNear_ShowsWhatIsLeft(t *testing.T) {
	fifty := Figures{Remaining: new(int64(50)), Used: new(int64(950))}
	l := newLease(&Answer{Allowed: true, Granted: 100, SpendWithinMS: 1000, Figures: fifty, Reservation: "t",
		Limits:  []LimitAnswer{{Figures: fifty}, {}},
		Headers: map[string]string{"X-RateLimit-Remaining": "50", "RateLimit": `"a";r=50;t=3, "b;r=1";r=70;t=1`, "Other": "50"}},
		2, 0)
	a := l.answer(30, 2*ms)
	if *a.Remaining != 110 || *a.Used != 890 || *a.Limits[0].Remaining != 110 || a.Limits[1].Remaining != nil ||
		a.Reservation != "" || a.Headers["X-RateLimit-Remaining"] != "110" || a.Headers["RateLimit"] != `"a";r=110;t=3, "b;r=1";r=130;t=1` ||
		a.Headers["Other"] != "50" {
		t.Errorf("got %+v", a)
	}
	if b := l.answer(29, 2*ms+1); b != a {
		t.Error("an answer is made for each request")
	}
	if b := l.answer(28, 3*ms); *b.Remaining != 106 || *a.Remaining != 110 {
		t.Error("an answer has changed, or is old")
	}
}
