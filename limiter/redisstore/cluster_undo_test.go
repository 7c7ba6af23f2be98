package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/limiter/redisstore/script"
)

// partsOf is a store on one server that is sent parts of requests, as a cluster is.
type partsOf struct {
	*Store
	t      *testing.T
	client *redis.Client
	ask    limiter.Ask

	attempt int64
}

func newParts(t *testing.T) *partsOf {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testenv.Redis(t).Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(Options{Client: client, PlainKeys: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	limit := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Window: 3_600_000, Burst: 10}
	return &partsOf{Store: s, t: t, client: client, ask: limiter.Ask{Key: "{user:a}|1|lv", Limit: limit, Weight: 3}}
}

// do sends one part and returns how it was answered.
func (s *partsOf) do(op limiter.Op, id, whole, name string) *script.Request {
	s.t.Helper()
	b := newBatch(1)
	b.isUndo = true
	b.add().EncodePart(&s.names, &limiter.Request{Op: op, ID: id, Attempt: s.attempt,
		Asks: []limiter.Ask{s.ask}}, whole, name)
	if err := s.dispatchers[0].submit(b); err != nil {
		s.t.Fatal(err)
	}
	<-b.done
	return &b.requests[0]
}

// holds fails the test unless the bucket holds this many units.
func (s *partsOf) holds(want int64) {
	s.t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{s.ask}},
		&res); err != nil {
		s.t.Fatal(err)
	}
	if got := s.ask.Limit.Capacity() - res.Limits[0].Remaining; got != want {
		s.t.Errorf("the bucket holds %d, want %d", got, want)
	}
}

func TestUndo_ByNameHappensOnceHoweverOftenItIsSent(t *testing.T) {
	s := newParts(t)
	for _, id := range []string{"", "a"} {
		whole := id
		s.do(limiter.OpTake, id, whole, "one")
		s.do(limiter.OpTake, id+"other", whole, "two")
		s.holds(6)
		for range 3 {
			if o := s.do(script.OpUndo, id, whole, "one"); o.Err != nil {
				t.Fatal(o.Err)
			}
			s.holds(3)
		}
		s.do(script.OpUndo, id+"other", whole, "two")
		s.holds(0)
		s.client.FlushAll(context.Background())
	}
}

// What is undone of a limit that spans regions is given back in its sums.
func TestUndo_IsToldToOtherRegions(t *testing.T) {
	s := newParts(t)
	for _, l := range []limiter.Limit{
		s.ask.Limit,
		{Algorithm: limiter.GCRA, Count: 10, Window: 3_600_000, Burst: 10},
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 3_600_000},
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 3_600_000, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 3_600_000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 3_600_000, Buckets: 60},
		{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 3_600_000},
	} {
		s.ask = limiter.Ask{
			Key: limiter.Key("{user:" + l.Align.String() + "}|1|" + l.Algorithm.Kind()), Limit: l, Weight: 3, Spans: true,
		}
		s.do(limiter.OpTake, "", "", "one")
		s.do(limiter.OpTake, "", "", "two")
		s.do(script.OpUndo, "", "", "two")
		s.do(script.OpUndo, "", "", "two")
		s.holds(3)
		sums, err := s.Export(context.Background(), 10, time.Hour)
		if err != nil || len(sums) != 1 {
			t.Fatalf("%s: %+v, %v", l.Algorithm, sums, err)
		}
		if m := sums[0].Sums; m.Taken != 6 || m.Given != 3 || m.Windows[0].Units != 3 {
			t.Errorf("%s: %+v, want 6 taken and 3 given back", l.Algorithm, m)
		}
		s.client.FlushAll(context.Background())
	}
}

// A take whose answer was lost may be carried out after its give-back.
func TestUndo_ATakeThatComesLaterIsRefused(t *testing.T) {
	s := newParts(t)
	if o := s.do(script.OpUndo, "", "", "one"); o.Err != nil {
		t.Fatal(o.Err)
	}
	o := s.do(limiter.OpTake, "", "", "one")
	var se *limiter.StoreError
	if !errors.As(o.Err, &se) || se.Cause != limiter.CauseCanceled || se.Unknown {
		t.Errorf("got %v, want a refusal that spent nothing", o.Err)
	}
	s.holds(0)
}

// What was booked before a reset is no longer in the bucket.
func TestUndo_AfterAResetTakesNothingFromOthers(t *testing.T) {
	s := newParts(t)
	for _, id := range []string{"", "a"} {
		s.do(limiter.OpTake, id, id, "one")
		s.do(limiter.OpReset, "", "", "")
		s.do(limiter.OpTake, "", "", "two")
		s.do(script.OpUndo, id, id, "one")
		s.holds(3)
		s.do(script.OpUndo, "", "", "two")
		s.holds(0)
	}
}

// A failover that loses a charge loses its name with it, so that the give-back
// leaves alone what others hold.
func TestUndo_OfALostChargeTakesNothingFromOthers(t *testing.T) {
	s := newParts(t)
	s.do(limiter.OpTake, "", "", "one")
	s.client.FlushAll(context.Background())
	s.do(limiter.OpTake, "", "", "two")
	s.do(script.OpUndo, "", "", "one")
	s.holds(3)
}

func TestUndo_LeavesAloneWhatAnotherAttemptReliesOn(t *testing.T) {
	s := newParts(t)
	s.do(limiter.OpTake, "a", "w", "one")
	if o := s.do(script.OpCommit, "a", "w", "two"); !o.Committed {
		t.Fatalf("got %+v, want the stored answer, committed", o)
	}
	s.do(script.OpUndo, "a", "w", "one")
	s.holds(3)
}

// The attempt that took gives up its hold when it is undone, so that the last of the others can give back.
func TestUndo_LeavesAloneWhatAnAttemptInAnotherRegionReliesOn(t *testing.T) {
	s := newParts(t)
	s.attempt, s.ask.Limit = 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 86_400_000}
	s.do(limiter.OpTake, "a", "w", "one")
	s.attempt = 2
	if o := s.do(script.OpCommit, "a", "w", "two"); o.Err != nil || !o.Committed {
		t.Fatalf("got %+v, want the stored answer", o)
	}
	s.attempt = 1
	s.do(script.OpUndo, "a", "w", "one")
	s.holds(3)
	refund := limiter.Request{Op: limiter.OpRefund, ID: "a", Attempt: 2, Asks: []limiter.Ask{s.ask}}
	var res limiter.Result
	if err := s.Do(t.Context(), &refund, &res); err != nil || res.Limits[0].Refunded != 3 {
		t.Errorf("%v %+v", err, res)
	}
	s.do(limiter.OpTake, "a", "w", "three")
	s.do(script.OpUndo, "a", "w", "three")
	s.holds(0)
}

// Names last no longer than what they stand for counts, and never long.
func TestUndo_NamesExpire(t *testing.T) {
	s := newParts(t)
	for _, window := range []int64{2000, 3_600_000} {
		s.ask.Limit.Window = window
		s.do(limiter.OpTake, "", "", "one")
		most := min(nameLife, time.Duration(window)*time.Millisecond)
		if life := s.client.PTTL(context.Background(), "sl:{user:a}:g:one").Val(); life <= 0 || life > most {
			t.Errorf("with a window of %d ms a name lives %s, want at most %s", window, life, most)
		}
		s.client.FlushAll(context.Background())
	}
}

// What was given back before it was taken cannot be taken for twice as long as a
// name lives, and leaves nothing behind after that.
func TestUndo_AnEmptyNameExpires(t *testing.T) {
	s := newParts(t)
	s.do(script.OpUndo, "", "", "one")
	life := s.client.PTTL(context.Background(), "sl:{user:a}:g:one").Val()
	if life <= nameLife || life > 2*nameLife {
		t.Errorf("an empty name lives %s, want %s", life, 2*nameLife)
	}
}

func TestUndos_AreBoundedAndCounted(t *testing.T) {
	s := &Store{opt: Options{MaxBatch: 100, MaxWait: time.Second},
		names: script.Names{Bucket: func(k limiter.Key) string { return string(k) }}}
	s.cluster = &cluster{store: s, view: &topology{}}
	for range clusterDispatchers {
		d := newDispatcher(s.opt.MaxBatch, s.opt.MaxBatch)
		d.close() // it refuses everything
		s.dispatchers = append(s.dispatchers, d)
	}
	s.cluster.undos = s.cluster.newUndos()
	defer s.cluster.finishUndos()
	limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Window: 1000}
	denied := s.cluster.split(&limiter.Request{Asks: []limiter.Ask{
		{Key: "{a}", Weight: 1, Limit: limit}, {Key: "{b}", Weight: 1, Limit: limit},
	}})
	across.Run([]*across.Request{denied}, func(round []*across.Part) {
		for _, p := range round { // one part takes, the other denies, and what was taken cannot be undone
			p.Got = across.Answer{Took: true, Result: &limiter.Result{Allowed: p.Step == across.Ask,
				Limits: make([]limiter.Decision, 1)}}
			if p.Step == across.Undo {
				p.Got = across.Answer{Err: errClosed}
			}
		}
	})
	now := wallTime()
	for range maxUndos + 2 {
		s.cluster.undos.Keep(denied, now)
	}
	if st := s.Stats(); st.GiveBacksPending != maxUndos || st.GiveBacksLost != 2 {
		t.Errorf("got %+v, want %d pending and 2 lost", st, maxUndos)
	}
	s.cluster.undos.Keep(denied, now.Add(-nameLife))
	s.cluster.finishUndos()
	if st := s.Stats(); st.GiveBacksPending != 0 || st.GiveBacksLost != maxUndos+3 {
		t.Errorf("got %+v, want that the old one and all that waited are lost", st)
	}
}
