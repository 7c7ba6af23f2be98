package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
)

var errDown = errors.New("down")

// bench is a breaker with a clock of its own; watched counts how often probes
// were started.
type bench struct {
	*breaker
	at      time.Time
	watched int
	changes []BreakerChange
}

func newBench() *bench {
	b := &bench{at: time.UnixMilli(1_000_000)}
	b.breaker = &breaker{node: "n:1", watch: func(*breaker) { b.watched++ },
		changed: func(c BreakerChange) { b.changes = append(b.changes, c) }}
	return b
}

// fail lets n calls fail and reports how many were let through.
func (b *bench) fail(n int) (passed int) {
	for range n {
		if b.admit(b.at) {
			passed++
			b.report(b.at, failing, limiter.CauseConnection, errDown)
		}
	}
	return passed
}

func (b *bench) succeed(n int) (passed int) {
	for range n {
		if b.admit(b.at) {
			passed++
			b.report(b.at, healthy, "", nil)
		}
	}
	return passed
}

func (b *bench) state() BreakerState { return b.snapshot(b.at).State }

func TestBreaker_OpensAfterFailuresInARow(t *testing.T) {
	b := newBench()
	if got := b.fail(100); got != tripRun {
		t.Errorf("%d calls passed, want %d", got, tripRun)
	}
	s := b.snapshot(b.at)
	if s.State != BreakerOpen || s.Opened != 1 || s.Refused != 95 || s.Cause != limiter.CauseConnection || b.watched != 1 {
		t.Errorf("got %+v, probed by %d", s, b.watched)
	}
	var se *limiter.StoreError
	if err := b.refusal(); !errors.As(err, &se) || se.Cause != limiter.CauseBreaker || se.Unknown {
		t.Errorf("got %v", err)
	}
}

func TestBreaker_StaysClosedOverASlowCallNowAndThen(t *testing.T) {
	b := newBench()
	for range 100 {
		b.fail(1)
		b.succeed(2)
	}
	if b.state() != BreakerClosed {
		t.Error("a third of the calls opened it")
	}
}

func TestBreaker_OpensWhenHalfOfTheCallsFail(t *testing.T) {
	b := newBench()
	for range 10 {
		b.succeed(1)
		b.fail(1)
	}
	if b.state() != BreakerOpen {
		t.Error("still closed")
	}
}

func TestBreaker_LetsAGrowingShareThroughAfterAProbe(t *testing.T) {
	b := newBench()
	b.fail(tripRun)
	b.at = b.at.Add(time.Minute)
	b.recovered(b.at)
	shares := make([]int, 0, 4)
	for _, step := range []time.Duration{0, rampMost / 4, rampMost / 4, rampMost / 4} {
		b.at = b.at.Add(step)
		shares = append(shares, b.succeed(100))
	}
	for i, want := range []int{10, 32, 55, 77} {
		if shares[i] < want-2 || shares[i] > want+2 {
			t.Errorf("shares %v of 100, want about 10, 32, 55, 77", shares)
			break
		}
	}
	if b.state() != BreakerHalfOpen {
		t.Error("closed too early")
	}
	b.at = b.at.Add(rampMost / 4)
	if got := b.succeed(100); got != 100 || b.state() != BreakerClosed {
		t.Errorf("%d of 100 pass after the ramp, state %s", got, b.state())
	}
	var states []string
	for _, c := range b.changes {
		states = append(states, c.From.String()+">"+c.To.String())
	}
	if len(states) != 3 || states[0] != "closed>open" || states[1] != "open>half_open" || states[2] != "half_open>closed" {
		t.Errorf("told %v", states)
	}
}

func TestBreaker_OpensAgainWhenTheRampFails(t *testing.T) {
	b := newBench()
	b.fail(tripRun)
	b.at = b.at.Add(time.Minute)
	b.recovered(b.at)
	b.at = b.at.Add(rampMost / 2)
	if got := b.fail(100); got != rampRun || b.state() != BreakerOpen || b.watched != 2 {
		t.Errorf("%d passed, state %s, probed by %d", got, b.state(), b.watched)
	}
}

func TestBreaker_IgnoresLateAnswersAndWhatSaysNothing(t *testing.T) {
	b := newBench()
	for range 100 {
		b.report(b.at, inconclusive, limiter.CauseCanceled, errDown)
	}
	if b.state() != BreakerClosed {
		t.Error("callers who left opened it")
	}
	b.fail(tripRun)
	b.report(b.at, healthy, "", nil)
	b.report(b.at, failing, limiter.CauseTimeout, errDown)
	if s := b.snapshot(b.at); s.State != BreakerOpen || s.Opened != 1 || b.watched != 1 {
		t.Errorf("answers to earlier calls changed it: %+v", s)
	}
}

func TestBreaker_ProbesOneAtATimeUntilOneSucceeds(t *testing.T) {
	b := newBench()
	b.fail(tripRun)
	running, calls := 0, 0
	b.watchUntil(t.Context(), func() time.Time { return b.at }, func(context.Context) error {
		if running++; running > 1 {
			t.Error("two probes at once")
		}
		defer func() { running-- }()
		if calls++; calls < 4 {
			return errDown
		}
		return nil
	})
	if s := b.snapshot(b.at); calls != 4 || s.Probes != 4 || s.State != BreakerHalfOpen {
		t.Errorf("%d probes, %+v", calls, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.watchUntil(ctx, func() time.Time { return b.at },
		func(context.Context) error { t.Error("probed after its end"); return nil })
}

func TestBreaker_ProbesOftenEnoughToReturnWithinASecond(t *testing.T) {
	b := newBench()
	for range 50 {
		if p := b.probing(); p < probeFirst/2 || p > probeMost {
			t.Errorf("paused %s", p)
		}
	}
	if probeMost+rampMost >= 700*time.Millisecond || probeWait >= probeMost {
		t.Error("a probe in vain and the ramp take longer than 0.7 s")
	}
}

func TestBreaker_RampFollowsTheOutage(t *testing.T) {
	tests := []struct{ outage, want time.Duration }{
		{0, rampLeast}, {50 * time.Millisecond, 25 * time.Millisecond}, {300 * time.Millisecond, 150 * time.Millisecond},
		{time.Hour, rampMost},
	}
	for _, tt := range tests {
		b := newBench()
		b.fail(tripRun)
		b.at = b.at.Add(tt.outage)
		b.recovered(b.at)
		b.at = b.at.Add(tt.want - time.Millisecond)
		if b.state() != BreakerHalfOpen {
			t.Errorf("after an outage of %s it closed before %s", tt.outage, tt.want)
		}
		b.at = b.at.Add(time.Millisecond)
		if b.state() != BreakerClosed {
			t.Errorf("after an outage of %s it was not closed within %s", tt.outage, tt.want)
		}
	}
}

// A server that comes and goes is one outage: probes and ramp grow as in one.
func TestBreaker_OpeningAgainSoonIsTheSameOutage(t *testing.T) {
	b := newBench()
	for range 40 {
		b.fail(tripRun)
		b.at = b.at.Add(b.probing())
		b.recovered(b.at)
		b.at = b.at.Add(b.ramp)
		if b.state() != BreakerClosed {
			t.Fatal("it did not close")
		}
	}
	if b.ramp != rampMost || b.pause != probeMost {
		t.Errorf("after 40 openings the ramp takes %s and probes are %s apart, want %s and %s", b.ramp, b.pause, rampMost,
			probeMost)
	}
	b.at = b.at.Add(newOutageAfter)
	b.fail(tripRun)
	b.probing()
	b.recovered(b.at)
	if b.ramp != rampLeast || b.pause != probeFirst {
		t.Errorf("a new outage begins with a ramp of %s and a pause of %s", b.ramp, b.pause)
	}
}

// A hiccup degrades no more than twice the requests that arrive while it lasts: on
// a virtual clock, a request each half millisecond, a deadline of 25 ms and as many
// calls under way as a lane has.
func TestBreaker_AHiccupDegradesLittleMoreThanWhatArrivesInIt(t *testing.T) {
	for _, ms := range []int64{60, 80, 100, 150, 200} {
		stall := time.Duration(ms) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			const every, deadline = 500 * time.Microsecond, 25 * time.Millisecond
			end := time.Now().Add(stall)
			answer := func(ctx context.Context) error { // when the server goes on
				ctx, cancel := context.WithDeadline(ctx, end)
				defer cancel()
				<-ctx.Done()
				if time.Now().Before(end) {
					return errDown
				}
				return nil
			}
			var wg sync.WaitGroup
			b := &breaker{node: "n:1"}
			b.watch = func(*breaker) {
				wg.Go(func() {
					b.watchUntil(t.Context(), time.Now, func(ctx context.Context) error {
						ctx, cancel := context.WithTimeout(ctx, probeWait)
						defer cancel()
						return answer(ctx)
					})
				})
			}
			flying, waiting, arrived, degraded := 0, 0, 0, 0
			var mu sync.Mutex
			var call func()
			call = func() { // takes all that wait, as a lane does
				for waiting > 0 && flying < inFlight {
					n := waiting
					waiting = 0
					if !b.admit(time.Now()) {
						degraded += n
						return
					}
					flying++
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), deadline)
						defer cancel()
						err := answer(ctx)
						mu.Lock()
						defer mu.Unlock()
						flying--
						if err != nil {
							degraded += n
							b.report(time.Now(), failing, limiter.CauseTimeout, err)
						} else {
							b.report(time.Now(), healthy, "", nil)
						}
						call()
					})
				}
			}
			for range 2 * time.Second / every {
				mu.Lock()
				if time.Now().Before(end) {
					arrived++
				}
				waiting++
				call()
				mu.Unlock()
				<-time.After(every) // of the virtual clock
			}
			wg.Wait()
			if degraded > 2*arrived {
				t.Errorf("a stall of %s, in which %d requests arrived, degraded %d", stall, arrived, degraded)
			}
			if state := b.snapshot(time.Now()).State; state != BreakerClosed {
				t.Errorf("after a stall of %s the breaker is %s", stall, state)
			}
			t.Logf("stall of %s: %d arrived, %d degraded", stall, arrived, degraded)
		})
	}
}

func TestVerdict_OnlyTheServersOwnStateCounts(t *testing.T) {
	tests := []struct {
		cause limiter.Cause
		reply bool
		want  verdict
	}{
		{limiter.CauseConnection, false, failing}, {limiter.CauseReadOnly, true, failing},
		{limiter.CauseLoading, true, failing}, {limiter.CauseMemory, true, failing},
		{limiter.CauseAuth, true, failing}, {limiter.CauseBusy, true, failing}, {limiter.CauseTimeout, false, failing},
		{limiter.CauseBusy, false, inconclusive}, {limiter.CauseCanceled, false, inconclusive},
		{limiter.CauseCluster, true, inconclusive}, {limiter.CauseClosed, false, inconclusive},
		{limiter.CauseWrongType, true, healthy}, {limiter.CauseInternal, true, healthy},
	}
	for _, tt := range tests {
		if got := verdictOf(&limiter.StoreError{Cause: tt.cause}, tt.reply); got != tt.want {
			t.Errorf("%s (reply %v): got %d, want %d", tt.cause, tt.reply, got, tt.want)
		}
	}
}

func TestBreaker_ForgetsAServerThatHasLeft(t *testing.T) {
	b := newBench()
	b.fail(tripRun)
	if b.watchUntil(t.Context(), func() time.Time { return b.at },
		func(context.Context) error { return redis.ErrClosed }) {
		t.Error("a closed client is still probed")
	}
}

// A node that leaves the cluster in health never fails a probe.
func TestBreakers_ForgetNodesThatHaveLeftTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "192.0.2.1:1", "192.0.2.2:1" // numbers: names would be looked up, outside the bubble
		on := func(addr string) []redis.ClusterNode { return []redis.ClusterNode{{Addr: addr}} }
		view := [][]redis.ClusterSlot{
			{{End: 99, Nodes: on(first)}, {Start: 100, End: slots - 1, Nodes: on(second)}},
			{{End: slots - 1, Nodes: on(second)}},
		}
		var at atomic.Int64
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return view[at.Load()], nil },
			Dialer:       func(context.Context, string, string) (net.Conn, error) { return nil, errDown },
		})
		s, err := New(Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		shown := func() (nodes []string) {
			for _, b := range s.Breakers() {
				nodes = append(nodes, b.Node)
			}
			return nodes
		}
		if _, err := client.MasterForKey(t.Context(), "any"); err != nil {
			t.Fatal(err)
		}
		if got := shown(); !slices.Equal(got, []string{first, second}) {
			t.Errorf("breakers of %v, want both nodes", got)
		}
		at.Store(1)
		client.ReloadState(t.Context())
		<-time.After(2 * time.Minute) // of the virtual clock
		if got := shown(); !slices.Equal(got, []string{second}) {
			t.Errorf("breakers of %v, want the second alone", got)
		}
		if err := errors.Join(s.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	})
}
