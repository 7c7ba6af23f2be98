package decide

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// gapStore takes a time for each call, in a part of which the process was not run.
type gapStore struct {
	limiter.Store
	pass      func(took time.Duration)
	took, gap time.Duration
	lost      time.Duration
	fails     error
}

func (s *gapStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	s.pass(s.took)
	s.lost += s.gap
	if s.fails != nil {
		return s.fails
	}
	return s.Store.Do(ctx, req, res)
}

func (s *gapStore) DoAll(ctx context.Context, calls []limiter.Call) {
	s.pass(s.took)
	s.lost += s.gap
	s.Store.DoAll(ctx, calls)
}

// decided keeps the last decisions.
type decided struct {
	NopObserver
	starved []bool
	cause   limiter.Cause
}

func (d *decided) ObserveDecision(of *Decision) {
	d.starved, d.cause = append(d.starved, of.Starved), of.Answer.Cause
}

func gapFixture(t *testing.T, timeout time.Duration) (*fixture, *gapStore, *decided) {
	store, seen := &gapStore{lost: time.Hour}, &decided{}
	f := newFixture(t, []rules.Rule{perUser("rate", "open", 100), shop("calls", "user", 100)}, func(o *CheckerOptions) {
		store.Store = o.Store
		o.Store, o.Timeout, o.Observe = store, timeout, seen
		o.Lost = func() time.Duration { return store.lost }
	})
	store.pass = func(took time.Duration) { f.now.Add(took.Milliseconds()) }
	return f, store, seen
}

func TestStarved_LostMoreThanTheStoreTimeoutDuringTheCheck(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name               string
		timeout, took, gap time.Duration
		want               bool
	}{
		{"in time", 25 * ms, 3 * ms, 0, false},
		{"slow, and run all the time", 25 * ms, 90 * ms, 0, false},
		{"slow, and not run for the store timeout", 25 * ms, 90 * ms, 25 * ms, false},
		{"slow, and not run for longer", 25 * ms, 90 * ms, 26 * ms, true},
		{"a gap of another check that is counted only now", 25 * ms, 3 * ms, 90 * ms, false},
		{"the default timeout", 0, 90 * ms, 26 * ms, true},
		{"a longer timeout", time.Second, 90 * ms, 89 * ms, false},
		{"no timeout", -1, 90 * ms, 89 * ms, false},
	} {
		f, store, seen := gapFixture(t, c.timeout)
		store.took, store.gap = c.took, c.gap
		f.take()
		qs := []Question{{Op: limiter.OpTake, Weight: 1}, {Op: limiter.OpTake, Weight: 1}}
		qs[0].Descriptor.User, qs[1].Descriptor.User = "1", "2"
		if err := f.DoAll(t.Context(), qs, make([]Answer, 2), nil); err != nil {
			t.Fatal(err)
		}
		f.call(asked("user=1", 1, ""))
		if len(seen.starved) != 4 {
			t.Fatalf("%s: %d decisions", c.name, len(seen.starved))
		}
		for i, got := range seen.starved {
			if got != c.want {
				t.Errorf("%s: check %d: starved %t, want %t", c.name, i, got, c.want)
			}
		}
	}
}

func TestStarved_WithoutAMeterNoCheckIs(t *testing.T) {
	f, store, seen := gapFixture(t, time.Millisecond)
	store.took = time.Second
	f.opt.Lost = nil
	f.take()
	if seen.starved[0] {
		t.Error("starved, and nothing measures that")
	}
}

func TestAnswer_NamesTheCauseOfAFailMode(t *testing.T) {
	f, store, seen := gapFixture(t, time.Second)
	store.fails = &limiter.StoreError{Cause: limiter.CauseStarved, Err: errors.New("late")}
	if f.take(); seen.cause != limiter.CauseStarved {
		t.Errorf("the cause is %q, want %q", seen.cause, limiter.CauseStarved)
	}
	store.fails = nil
	if f.take(); seen.cause != "" {
		t.Errorf("the store decided, and the cause is %q", seen.cause)
	}
}
