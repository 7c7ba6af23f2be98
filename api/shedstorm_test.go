package api

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// storm takes for each of 24 callers at once, ten times, and counts by the caller's number modulo 3
// what passes, and what is shed.
func (f *fixture) storm(of func(n int) match.Descriptor) (passed [3]int64, shed int64) {
	f.t.Helper()
	var by [4]atomic.Int64
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			for range 10 {
				var a decide.Answer
				q := decide.Question{Op: limiter.OpTake, Weight: 1, Descriptor: of(n)}
				switch err := f.checker.Do(f.t.Context(), &q, &a); {
				case err != nil || a.Degraded != "":
					f.t.Errorf("%v, degraded %q", err, a.Degraded)
				case a.Allowed():
					by[n%3].Add(1)
				case reply.Status(&a) == http.StatusServiceUnavailable:
					by[3].Add(1)
				}
			}
		})
	}
	wg.Wait()
	return [3]int64{by[0].Load(), by[1].Load(), by[2].Load()}, by[3].Load()
}

func TestShed_StormNeverPassesTheCapacity(t *testing.T) {
	priorities := []string{"critical", "normal", "low"}
	var rs []rules.Rule
	for _, priority := range priorities {
		r := inPool(aMinute(priority, 1000), "shop", priority)
		r.Scope = "attr:" + priority
		rs = append(rs, r)
	}
	onBothStores(t, shedding(60), rs, func(t *testing.T, f *fixture) {
		passed, shed := f.storm(func(n int) match.Descriptor {
			return match.Descriptor{Attributes: map[string]string{priorities[n%3]: "x"}}
		})
		if passed[0]+passed[1]+passed[2] != 60 || shed != 240-60 || passed[2] > 30 {
			t.Errorf("%d passed and %d were shed; want 60 in all, at most 30 low, and 180", passed, shed)
		}
	})
}

func TestShed_StormOnAClusterNeverPassesTheCapacity(t *testing.T) {
	f := pooled(t, "memory", shedding(60), []rules.Rule{inPool(aMinute("r", 1000), "shop", "critical")})
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	by, _ := f.storm(func(n int) match.Descriptor { return match.Descriptor{User: fmt.Sprintf("u%d", n)} })
	passed := by[0] + by[1] + by[2]
	for passed <= 60 && f.check(`{"user":"z"}`).Allowed { // what undone takes left free
		passed++
	}
	if passed != 60 {
		t.Errorf("%d passed, want 60", passed)
	}
}
