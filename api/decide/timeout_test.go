package decide

import (
	"context"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// deadlineStore records how long each request may take.
type deadlineStore struct {
	limiter.Store
	took time.Duration
}

func (s *deadlineStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if b, ok := ctx.(limiter.Bounded); ok {
		s.took = b.Bound().Deadline.Sub(b.Bound().Start)
	}
	return s.Store.Do(ctx, req, res)
}

// TestTimeout_LeavesTimeForTheAnswer: the store has less time than the caller waits.
func TestTimeout_LeavesTimeForTheAnswer(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: 21 * time.Millisecond, 25 * time.Millisecond: 21 * time.Millisecond, 6 * time.Millisecond: 5 * time.Millisecond,
		time.Second: 996 * time.Millisecond, -1: 0,
	} {
		var store deadlineStore
		f := newFixture(t, nil, func(o *CheckerOptions) {
			store.Store = o.Store
			o.Store, o.Timeout = &store, timeout
		})
		limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 9, Window: 1000}
		f.asks(limiter.OpTake, Question{IsDirect: true, Direct: Direct{Key: "k", Limit: limit}, Weight: 1})
		if store.took != want {
			t.Errorf("of %s the store has %s, want %s", timeout, store.took, want)
		}
	}
}

// TestTimeout_DoesNotConcernTheMemoryOfThisNode: what needs no other machine is decided by the limit, however late.
func TestTimeout_DoesNotConcernTheMemoryOfThisNode(t *testing.T) {
	const limit, most = 30, 100
	f := newFixture(t, []rules.Rule{perUser("r", rules.FailOpen, limit)}, func(o *CheckerOptions) {
		o.Timeout = 1 // it has passed before the store is called
		o.Store = o.Local
	})
	qs, as := make([]Question, most), make([]Answer, most)
	for i := range qs {
		qs[i] = Question{Weight: 1, Descriptor: match.Descriptor{User: "42"}}
	}
	if err := f.DoAll(t.Context(), qs[1:], as[1:], nil); err != nil {
		t.Fatal(err)
	}
	as[0] = *f.asks(limiter.OpTake, qs[0])
	allowed := 0
	for i := range as {
		if as[i].Degraded != "" {
			t.Fatalf("check %d was decided by the fail mode %s", i, as[i].Degraded)
		}
		if as[i].Allowed() {
			allowed++
		}
	}
	if allowed != limit {
		t.Errorf("%d of %d passed, the limit is %d", allowed, most, limit)
	}
}
