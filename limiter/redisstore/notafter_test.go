package redisstore_test

import (
	"errors"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// A request whose limit held only until an instant is not decided after it, also together with others and by the long
// way, and spends nothing.
func TestStore_DecidesNothingAfterItsLimitHasEnded(t *testing.T) {
	s := open(t, client(t, testenv.Redis(t).URL()), redisstore.Options{})
	ask := limiter.Ask{Key: "{a}|1|fw", Weight: 1,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 3_600_000}}
	var res limiter.Result
	for _, id := range []string{"", "r"} {
		late := ask
		late.NotAfter = 1
		err := s.Do(t.Context(), &limiter.Request{ID: id, Asks: []limiter.Ask{late}}, &res)
		var se *limiter.StoreError
		if !errors.As(err, &se) || se.Cause != limiter.CauseTimeout || se.Unknown {
			t.Errorf("id %q: %v", id, err)
		}
		late.NotAfter = limiter.MaxExact
		if err := s.Do(t.Context(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{late}}, &res); err != nil ||
			res.Limits[0].Remaining != 5 {
			t.Errorf("id %q: %v, %+v", id, err, res)
		}
	}
}
