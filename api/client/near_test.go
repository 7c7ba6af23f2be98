package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/rules"
)

const (
	minute = 60_000
	second = 1000
)

// What a caller spends is charged before, and its calls are few.
func TestNear_DecidesInMemoryAndIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, minute))
		c, n := s.client(Options{})
		steady(t, n, user("42"), 1000, 10)
		if used := s.used(c, user("42"))["a"]; used < 10_000 || used > 10_500 {
			t.Errorf("%d units count, want 10,000 and at most a lease", used)
		}
		n.Close()
		if used := s.used(c, user("42"))["a"]; used != 10_000 {
			t.Errorf("%d units count after Close, want 10,000", used)
		}
		st := addUp(t, n)
		if st.Spent+s.checks.Load()-2 != 10_000 || s.calls.Load() > 320 {
			t.Errorf("%+v, %d checks, %d calls", st, s.checks.Load(), s.calls.Load())
		}
		if charged, refunded := s.units.admitted.Load(), s.units.refunded.Load(); charged-refunded != 10_000 {
			t.Errorf("the service has counted %d units and %d back", charged, refunded)
		}
	})
}

// Whatever demand and algorithm, several callers never exceed the limit in any window, and use it.
func TestNear_NeverOverAndFullyUsed(t *testing.T) {
	for _, tt := range []struct {
		algorithm string
		least     int64 // percent that must be used
	}{{"fixed_window", 97}, {"sliding_window_counter", 95}, {"token_bucket", 85}, {"gcra", 85}, {"leaky_bucket", 85}} {
		for _, percent := range []int{50, 100, 120, 400, 1000} {
			t.Run(fmt.Sprintf("%s at %d %%", tt.algorithm, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const limit, clients, seconds = 2000, 4, 4
					s := newNearService(t, leasedRule("a", "global", tt.algorithm, limit, second))
					s.set(func(string) fault { return fault{before: 500 * time.Microsecond, after: 500 * time.Microsecond} })
					admitted := s.crowd(clients, limit*percent/100/clients, seconds, user("42"))
					full := int64(0) // what a bucket holds at first
					if tt.algorithm != "fixed_window" && tt.algorithm != "sliding_window_counter" {
						full = limit
					}
					passed := int64(0)
					for i, got := range admitted {
						passed += got
						if got > limit+full || passed > int64(i+1)*limit+full {
							t.Errorf("after second %d: %d were admitted in it, and %d in all", i, got, passed)
						}
					}
					if least := min(limit*seconds*int64(percent)/100, limit*seconds+full) * tt.least / 100; passed < least {
						t.Errorf("%d were admitted, want at least %d: %v", passed, least, admitted)
					}
				})
			})
		}
	}
}

// Calls are few where a limit is asked for as much as it gives, or more, and all of it is used.
func TestNear_CallsAreFew(t *testing.T) {
	for _, tt := range []struct{ clients, limit, percent, fewer int }{
		{2, 20_000, 100, 100}, {2, 20_000, 120, 100}, {2, 20_000, 400, 100}, {8, 10_000, 100, 100},
		{8, 10_000, 120, 100}, {8, 10_000, 400, 100},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const seconds = 5
				s := newNearService(t, leasedRule("a", "global", "fixed_window", int64(tt.limit), second))
				s.set(func(string) fault { return fault{before: 300 * time.Microsecond, after: 300 * time.Microsecond} })
				passed := sum(s.crowd(tt.clients, tt.limit*tt.percent/100/tt.clients, seconds, user("42"))[:seconds])
				asked, calls := tt.limit*tt.percent/100*seconds, int(s.calls.Load())
				if used := float64(passed) / float64(tt.limit*seconds); used < 0.97 || used > 1 {
					t.Errorf("%.4f of the limit were used", used)
				}
				if calls*tt.fewer > asked {
					t.Errorf("%d calls for %d checks", calls, asked)
				}
				t.Logf("%d calls for %d checks, %d times fewer, %.4f used", calls, asked, asked/calls,
					float64(passed)/float64(tt.limit*seconds))
			})
		})
	}
}

// crowd asks one question from several clients, each so many times a second, and returns how many were admitted in
// each second.
func (s *near) crowd(clients, rate, seconds int, q Check) (admitted []int64) {
	s.t.Helper()
	sums := make([]atomic.Int64, seconds+1)
	var wg sync.WaitGroup
	for range clients {
		c, n := s.client(Options{})
		wg.Go(func() {
			for i, got := range steady(s.t, n, q, rate, seconds) {
				sums[i].Add(got)
			}
			c.Close()
			addUp(s.t, n)
		})
	}
	wg.Wait()
	for i := range sums {
		admitted = append(admitted, sums[i].Load())
	}
	return admitted
}

// All buckets of a question are charged together.
func TestNear_AllBucketsAreChargedAndUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("all", "global", "fixed_window", 3000, minute),
			leasedRule("each", "user", "fixed_window", 1000, minute))
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for i := range 4 {
			c, n := s.client(Options{})
			wg.Go(func() {
				for _, got := range steady(t, n, user(fmt.Sprint(i)), 400, 5) {
					admitted.Add(got)
				}
				c.Close()
				addUp(t, n)
			})
		}
		wg.Wait()
		if admitted.Load() != 3000 {
			t.Errorf("%d were admitted, want 3000", admitted.Load())
		}
	})
}

// Questions that are asked rarely cost no more calls than without Near.
func TestNear_LukewarmQuestionsAreAskedAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const questions, seconds = 10_000, 10
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 100, minute))
		_, n := s.client(Options{})
		rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		asked := 0
		for range seconds * 10 {
			<-time.After(100 * time.Millisecond)
			for range questions * 4 / 100 { // 0.4 a second each
				asked++
				if a, err := n.Check(context.Background(), user(fmt.Sprint(rng.IntN(questions)))); err != nil || !a.Allowed {
					t.Fatalf("%+v, %v", a, err)
				}
			}
		}
		if got := s.calls.Load(); float64(got) > 1.02*float64(asked) {
			t.Errorf("%d calls for %d checks", got, asked)
		}
	})
}

// What was granted to a question that is asked no longer comes back.
func TestNear_GivesBackWhatNobodyAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 10_000, 3_600_000))
		c, n := s.client(Options{})
		allowed := steady(t, n, user("42"), 1000, 2)
		<-time.After(1500 * time.Millisecond)
		if used := s.used(c, user("42"))["a"]; used != sum(allowed) {
			t.Errorf("%d units count, want %d", used, sum(allowed))
		}
		<-time.After(3 * time.Second)
		if st := addUp(t, n); st.Questions != 0 {
			t.Errorf("%d questions are near", st.Questions)
		}
	})
}

// What the limits do not permit is asked each time.
func TestNear_AsksEachTimeWhereTheLimitsRequireIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exact := leasedRule("a", "user", "fixed_window", 700, 3_600_000)
		exact.HotKeys = rules.HotKeysExact
		s := newNearService(t, exact)
		_, n := s.client(Options{})
		allowed := steady(t, n, user("42"), 500, 3)
		if total := allowed[0] + allowed[1] + allowed[2]; total != 700 || n.Stats().Granted != 0 {
			t.Errorf("%v were admitted, %+v", allowed, n.Stats())
		}
		if calls := s.calls.Load(); calls > 1520 {
			t.Errorf("%d calls for 1,500 checks", calls)
		}
	})
}

// Weights and fields are those of one request, whatever is granted at once.
func TestNear_SettlesWeightsAndFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes := leasedRule("bytes", "user", "fixed_window", 1_000_000, 3_600_000)
		bytes.WeightField = new("bytes")
		s := newNearService(t, bytes, leasedRule("units", "user", "fixed_window", 1_000_000, 3_600_000))
		c, n := s.client(Options{})
		q := user("42")
		q.Weight, q.Fields = new(int64(3)), map[string]int64{"bytes": 1}
		admitted := sum(steady(t, n, q, 500, 2))
		a, err := n.Check(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		admitted++
		for _, l := range a.Limits {
			if *l.Used < admitted || *l.Used != *l.Limit-*l.Remaining {
				t.Errorf("%s: %d used and %d left after %d", l.Rule, *l.Used, *l.Remaining, admitted)
			}
		}
		n.Close()
		q.Fields["bytes"] = 0
		if used := s.used(c, q); used["bytes"] != admitted || used["units"] != 3*admitted || admitted != 1001 {
			t.Errorf("%d were admitted, and %v count", admitted, used)
		}
		addUp(t, n)
	})
}

// A change of the rules is obeyed within a second.
func TestNear_FollowsTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 1_000_000, 3_600_000))
		_, n := s.client(Options{})
		steady(t, n, user("42"), 1000, 1)
		exact := leasedRule("a", "user", "fixed_window", 2000, 3_600_000)
		exact.HotKeys = rules.HotKeysExact
		s.putInForce(exact)
		steady(t, n, user("42"), 1000, 1)
		granted := n.Stats().Granted
		if admitted := sum(steady(t, n, user("42"), 1000, 2)); admitted > 100 || n.Stats().Granted != granted {
			t.Errorf("%d were admitted, %d granted, then %d", admitted, granted, n.Stats().Granted)
		}
	})
}

// A denial is repeated until the instant of which the service speaks, and no longer.
func TestNear_DeniesUntilTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 500, second))
		_, n := s.client(Options{})
		admitted := steady(t, n, user("42"), 2000, 5)
		for i, got := range admitted[:5] {
			if got != 500 {
				t.Errorf("second %d: %d were admitted, want 500", i, got)
			}
		}
		if calls := s.calls.Load(); calls > 150 {
			t.Errorf("%d calls for 10,000 checks", calls)
		}
		if st := n.Stats(); st.Denied < 7000 {
			t.Errorf("%d were denied without a call", st.Denied)
		}
	})
}

// While the service is unavailable a lease is spent to its end; then the fail mode decides, and one caller asks.
func TestNear_SpendsTheRestWhileTheServiceIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 100_000, 3_600_000))
		var degraded atomic.Int64
		c, n := s.client(Options{OnDegraded: func(error) { degraded.Add(1) }})
		steady(t, n, user("42"), 1000, 1)
		held := n.Stats().Held
		s.set(func(string) fault { return fault{lost: true} })
		before := s.calls.Load()
		admitted, denied := int64(0), int64(0)
		for range 2000 {
			<-time.After(time.Millisecond)
			a, err := n.Check(context.Background(), user("42"))
			switch {
			case err != nil:
				t.Fatal(err)
			case a.Allowed && a.Degraded == "":
				admitted++
			case a.Degraded == FailClosed && a.ByClient:
				denied++
			}
		}
		if admitted == 0 || admitted > held || admitted+denied != 2000 || degraded.Load() != denied {
			t.Errorf("%d admitted of %d held, %d denied, %d degraded", admitted, held, denied, degraded.Load())
		}
		if calls := s.calls.Load() - before; calls > 40 {
			t.Errorf("%d calls during the outage", calls)
		}
		s.set(nil)
		<-time.After(time.Second)
		if a, err := n.Check(context.Background(), user("42")); err != nil || !a.Allowed {
			t.Errorf("after the outage: %+v, %v", a, err)
		}
		c.Close()
		addUp(t, n)
	})
}

// An answer that is lost was perhaps charged: it comes back by its id, and is never spent.
func TestNear_ALostAnswerIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 100_000, 3_600_000))
		c, n := s.client(Options{})
		var fails atomic.Int64
		s.set(func(path string) fault {
			return fault{unheard: path == "/ratelimit/reserve" && fails.Add(1)%2 == 1}
		})
		allowed := steady(t, n, user("42"), 1000, 3)
		s.set(nil)
		c.Close()
		addUp(t, n)
		d, _ := s.client(Options{})
		if used, sum := s.used(d, user("42"))["a"], sum(allowed); used != sum {
			t.Errorf("%d units count, want %d", used, sum)
		}
	})
}

// Processes that are killed at any time, over a network that loses and delays: never over.
func TestNear_NeverOverWithKillsAndFaults(t *testing.T) {
	for i, percent := range []int{50, 120, 400, 1000} {
		for k, algorithm := range []string{"fixed_window", "sliding_window_counter", "token_bucket", "gcra"} {
			t.Run(fmt.Sprintf("%s at %d %%", algorithm, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { killsAndFaults(t, uint64(4*i+k), algorithm, percent) })
			})
		}
	}
}

// stormChecks is how often each storm asks.
var stormChecks = 6250

func killsAndFaults(t *testing.T, seed uint64, algorithm string, percent int) {
	t.Helper()
	const limit, clients = 1000, 4
	seconds, rate := stormChecks*100/limit/percent+3, limit*percent/100/clients
	rs := []rules.Rule{leasedRule("all", "global", algorithm, limit, second)}
	if algorithm != "token_bucket" && algorithm != "gcra" { // what drains is leased only alone
		rs = append(rs, leasedRule("each", "user", "fixed_window", 900, second))
	}
	s := newNearService(t, rs...)
	rng := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test
	var mu sync.Mutex
	s.set(func(string) fault {
		mu.Lock()
		defer mu.Unlock()
		f := fault{before: time.Duration(rng.IntN(4000)) * time.Microsecond,
			after: time.Duration(rng.IntN(4000)) * time.Microsecond}
		switch rng.IntN(20) {
		case 0:
			f.lost = true
		case 1:
			f.unheard = true
		case 2:
			f.before = time.Duration(rng.IntN(60)) * time.Millisecond
		case 3:
			f.after = time.Duration(rng.IntN(60)) * time.Millisecond
		}
		return f
	})
	sums := make([]atomic.Int64, 20*seconds+60)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c, n := s.client(Options{})
			q := user(fmt.Sprint(i % 2))
			for at := range seconds * 10 { // tenths of a second
				if (at+3*i)%17 == 16 { // this process dies, and its leases with it, and another starts
					die(n)
					c, n = s.client(Options{})
				}
				mu.Lock()
				rests := time.Duration(rng.IntN(3)/2*rng.IntN(80)) * time.Millisecond // so that it holds what it does not spend
				mu.Unlock()
				<-time.After(rests)
				for range rate / 10 {
					<-time.After(time.Second / time.Duration(rate))
					a, err := n.Check(context.Background(), q)
					if err != nil {
						t.Error(err)
						return
					}
					if a.Allowed {
						sums[int(time.Since(begin)/time.Second)].Add(1)
					}
				}
			}
			c.Close()
			addUp(t, n)
		})
	}
	wg.Wait()
	full := int64(0) // what a bucket holds at first
	if algorithm == "token_bucket" || algorithm == "gcra" {
		full = limit
	}
	passed, last := int64(0), 0
	for i := range sums {
		got := sums[i].Load()
		passed += got
		if got > limit+full || passed > int64(i+1)*limit+full {
			t.Errorf("after second %d: %d were admitted in it, and %d in all", i, got, passed)
		}
		if got > 0 {
			last = i
		}
	}
	if least := int64(last) * limit * int64(min(percent, 100)) / 100 / 2; passed < least {
		t.Errorf("%d were admitted in %d seconds, want at least %d", passed, last, least)
	}
}

// die ends a Near as a process that is killed: it gives back nothing.
func die(n *Near) {
	n.closed.Store(true)
	close(n.stop)
	for _, k := range n.table.close() {
		k.mu.Lock()
		k.gone, k.next = true, nil
		k.lease.Store(nil)
		k.mu.Unlock()
	}
	n.calls.mu.Lock()
	n.calls.end()
	n.calls.mu.Unlock()
	n.calls.work.Wait()
}

func TestNear_DecidesWithoutAllocation(t *testing.T) {
	s := newNearService(t, leasedRule("a", "user", "fixed_window", 1<<40, 3_600_000))
	c, n := s.client(Options{Timeout: time.Minute})
	defer c.Close()
	q := user("42")
	q.Attributes = map[string]string{"host": "api.example.org"}
	ctx := context.Background()
	for range 100_000 {
		if _, err := n.Check(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(200_000, func() { _, _ = n.Check(ctx, q) }); got >= 1 {
		t.Errorf("%v allocations a decision", got)
	}
}

// A caller who leaves does not end the call that others wait for.
func TestNear_ACallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNearService(t, leasedRule("a", "user", "fixed_window", 100_000, 3_600_000))
		_, n := s.client(Options{})
		for range defaultNearRate - 1 {
			_, _ = n.Check(context.Background(), user("42"))
		}
		s.set(func(string) fault { return fault{before: 10 * time.Millisecond} })
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := n.Check(ctx, user("42")); !errors.Is(err, context.Canceled) {
				t.Errorf("the one that left: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if a, err := n.Check(context.Background(), user("42")); err != nil || !a.Allowed || a.Degraded != "" {
				t.Errorf("the one that stayed: %+v, %v", a, err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if st := n.Stats(); st.Calls != 1 || st.Granted == 0 {
			t.Errorf("%+v", st)
		}
	})
}
