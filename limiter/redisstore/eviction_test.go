package redisstore_test

import (
	"context"
	"fmt"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// A flood of random keys must not buy anyone a fresh limit. Under the policy
// that docs/operations.md asks for, a full server refuses instead of forgetting.
func TestStore_AFloodOfRandomKeysOnAFullServerForgetsNobody(t *testing.T) {
	srv := testenv.Redis(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	c := client(t, srv.URL())
	s := open(t, c, redisstore.Options{})
	limit := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: month}
	victim := ask(entity(), 1, limit)
	victim.Weight = limit.Count
	if res := do(t, s, limiter.OpTake, "", victim); !res.Allowed {
		t.Fatal("the first take was denied")
	}

	const flood, batch = 300_000, 100
	calls := make([]limiter.Call, batch)
	full := false
	for n := 0; n < flood && !full; n += batch {
		for i := range calls {
			key := limiter.Key(fmt.Sprintf("{user:flood-%d}|1|sc", n+i))
			calls[i] = limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{{Key: key, Limit: limit, Weight: 1}}}}
		}
		s.DoAll(context.Background(), calls)
		for i := range calls {
			if err := calls[i].Err; err != nil {
				wantCause(t, err, limiter.CauseMemory, false)
				full = true
				break
			}
		}
	}
	if !full {
		t.Fatalf("%d keys did not fill 4 MB", flood)
	}
	if err := c.ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	var res limiter.Result
	eventually(t, "it decides again", func() bool {
		return s.Do(context.Background(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{victim}}, &res) == nil
	})
	if got := res.Limits[0].Remaining; got != 0 {
		t.Errorf("after the flood the victim has %d units again, want 0", got)
	}
}
