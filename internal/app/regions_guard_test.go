package app

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// A region that is alone in asking gets the whole limit within a few intervals, also in one request, whatever its share
// was at first. Until then its answers say that it may try again soon.
func TestRegions_AloneARegionGetsTheWholeLimit(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.create("r", `"limit":90,"window_ms":86400000,"algorithm":"fixed_window","cold":"share"`)
	eu := p.nodes["eu"]
	doc := eu.check(`{"user":"ada","weight":90}`)
	limits, _ := doc["limits"].([]any)
	limit, _ := limits[0].(map[string]any)
	if doc["allowed"] != false || limit["remaining"] != float64(30) || doc["retry_after_ms"] == nil {
		t.Fatalf("the first request for all of the limit: %v, want it held to a third", doc)
	}
	eventually(t, "eu gets all of it", func() bool { return eu.allowed(`{"user":"ada","weight":90}`) })
	p.agree("ada", 0)
	spent := 0
	eventually(t, "eu gets it unit by unit", func() bool {
		for spent < 90 && eu.allowed(`{"user":"bob"}`) {
			spent++
		}
		return spent == 90
	})
	p.agree("bob", 0)
	if p.spend("us", "bob", 5) > 0 {
		t.Error("us admits more")
	}
}

// Regions that are all asked for more than there is admit less too much than without a guard, and nothing less than the
// limit.
func TestRegions_AStormIsHeldToShares(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	// Each unit of so small a limit is told (limiter.WorthParts): none is missing where the regions must agree.
	p.create("r", `"limit":290,"window_ms":86400000,"algorithm":"fixed_window","cold":"share"`)
	for round := range 3 {
		user := fmt.Sprintf("user%d", round)
		var wg sync.WaitGroup
		var admitted atomic.Int64
		for _, name := range p.names {
			for range 4 {
				wg.Go(func() { admitted.Add(int64(p.spend(name, user, 50))) })
			}
		}
		wg.Wait()
		if n := admitted.Load(); n > 450 {
			t.Errorf("%d of 290 are admitted, want far less than the 600 that were asked for", n)
		}
		eventually(t, "all of it is spent", func() bool {
			for p.nodes["eu"].allowed(fmt.Sprintf(`{"user":%q}`, user)) {
				admitted.Add(1)
			}
			return admitted.Load() >= 290
		})
		p.agree(user, 0)
	}
}
