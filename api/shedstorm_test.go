package api

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/testenv"
	"sluice/rules"
)

func TestShed_StormNeverPassesTheCapacity(t *testing.T) {
	var rs []rules.Rule
	for _, priority := range []string{"critical", "normal", "low"} {
		r := inPool(aMinute(priority, 1000), "shop", priority)
		r.Scope = "attr:" + priority
		rs = append(rs, r)
	}
	onBothStores(t, shedding(60), rs, func(t *testing.T, f *fixture) {
		var passed, shed atomic.Int64
		var by [3]atomic.Int64
		var wg sync.WaitGroup
		for n := range 24 {
			wg.Go(func() {
				priority := []string{"critical", "normal", "low"}[n%3]
				for range 10 {
					a := f.check(`{"attributes":{"` + priority + `":"x"}}`)
					if a.Allowed {
						passed.Add(1)
						by[n%3].Add(1)
					} else if a.Status == 503 {
						shed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if passed.Load() != 60 || shed.Load() != 240-60 || by[2].Load() > 30 {
			t.Errorf("%d passed, %d of them low, and %d were shed; want 60, at most 30, and 180", passed.Load(), by[2].Load(),
				shed.Load())
		}
	})
}

func TestShed_StormOnAClusterNeverPassesTheCapacity(t *testing.T) {
	f := pooled(t, "memory", shedding(60), []rules.Rule{inPool(aMinute("r", 1000), "shop", "critical")})
	f.store.Store = at(t, testenv.Cluster(t).URL(), f.now.Load)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			for range 10 {
				if a := f.check(fmt.Sprintf(`{"user":"u%d"}`, n)); a.Allowed {
					passed.Add(1)
				} else if a.Status != 503 {
					t.Errorf("got %+v", a)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() > 60 {
		t.Error("above the capacity")
	}
	for f.check(`{"user":"z"}`).Allowed { // what undone takes left free
		if passed.Add(1) > 60 {
			t.Fatal("above the capacity")
		}
	}
	if passed.Load() != 60 {
		t.Errorf("%d of 60 passed", passed.Load())
	}
}
