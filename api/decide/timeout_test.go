package decide

import (
	"context"
	"testing"
	"time"

	"sluice/limiter"
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
