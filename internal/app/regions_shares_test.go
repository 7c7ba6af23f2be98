package app

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// windowsOf counts what all regions have admitted of a fixed window, by the number of the window.
type windowsOf struct {
	t      *testing.T
	limit  int64
	window time.Duration
	mu     sync.Mutex
	units  map[int64]int64
}

// load asks a region for a user's units without a pause until stop is closed. A check counts in the window in which
// it began if it ends in the same one, so that the account is never too high.
func (w *windowsOf) load(n *node, user string, stop <-chan struct{}, admitted *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		began := time.Now().UnixMilli() / w.window.Milliseconds()
		if !n.allowed(fmt.Sprintf(`{"user":%q}`, user)) {
			continue
		}
		admitted.Add(1)
		if ended := time.Now().UnixMilli() / w.window.Milliseconds(); began != ended {
			continue
		}
		w.mu.Lock()
		w.units[began]++
		if w.units[began] > w.limit {
			w.t.Errorf("%d of %d units admitted in a window", w.units[began], w.limit)
		}
		w.mu.Unlock()
	}
}

// shareOf is the limit that a region enforces.
func (p *planet) shareOf(at string) float64 {
	p.t.Helper()
	return p.limitOf(at, `{"user":"nobody","weight":0}`)
}

// limitOf is the limit that a region enforces for a check of one limit.
func (p *planet) limitOf(at, check string) float64 {
	p.t.Helper()
	limits, _ := p.nodes[at].check(check)["limits"].([]any)
	if len(limits) != 1 {
		return -1
	}
	first, _ := limits[0].(map[string]any)
	n, _ := first["limit"].(float64)
	return n
}

// lendsWhatNobodyHasUsed checks that with a window of an hour a region lends at once what no key has used there, and
// nothing else.
func (p *planet) lendsWhatNobodyHasUsed() {
	p.t.Helper()
	const hourly, looks = `{"api_key":"k"}`, `{"api_key":"nobody","weight":0}`
	p.nodes["eu"].create(`{"name":"hourly","scope":"apikey","span":"local_then_global","limit":90,"window_ms":3600000,
		"algorithm":"fixed_window"}`)
	for _, name := range p.names {
		eventually(p.t, name+" has a third of the hour", func() bool { return p.limitOf(name, looks) == 30 })
	}
	admitted := 0
	take := func(at string) bool {
		ok := p.nodes[at].allowed(hourly)
		if ok {
			admitted++
		}
		return ok
	}
	for range 10 {
		take("eu")
	}
	eventually(p.t, "us has what nobody has used", func() bool {
		take("us")
		return p.limitOf("us", looks) >= 75
	})
	for _, name := range p.names {
		for take(name) { // until nothing is left
		}
	}
	if admitted < 75 || admitted > 90 {
		p.t.Errorf("%d of 90 units admitted", admitted)
	}
}

// A busy region gets what the others do not need, and loses it when it is cut off; a node that is killed loses
// nothing. The account is never above the limit.
func TestShares_FollowDemandAndNeverAddUpToMore(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.nodes["eu"].create(`{"name":"r","scope":"user","span":"local_then_global","limit":90,"window_ms":1000,
		"algorithm":"fixed_window"}`)
	for _, name := range p.names {
		eventually(t, name+" has a third", func() bool { return p.shareOf(name) == 30 })
	}
	account := &windowsOf{t: t, limit: 90, window: time.Second, units: map[int64]int64{}}
	var admitted atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(stop)
		load.Wait()
	})
	defer end()
	load.Go(func() { account.load(p.nodes["us"], "ada", stop, &admitted) })
	eventually(t, "us has what the others do not need", func() bool { return p.shareOf("us") >= 84 })
	p.lendsWhatNobodyHasUsed() // of a rule that is certainly younger than the marks
	p.cut("asia", true)
	eventually(t, "asia has its third again", func() bool { return p.shareOf("asia") == 30 })
	load.Go(func() { account.load(p.nodes["asia"], "ada", stop, &admitted) })
	eventually(t, "us has what eu does not need", func() bool { n := p.shareOf("us"); return n > 50 && n <= 60 })
	p.cut("asia", false)
	p.nodes["eu"].stop() // a lender
	eventually(t, "the loans of eu have ended", func() bool { return p.shareOf("us") <= 60 })
	p.nodes["eu"] = startWith(t, p.cfg["eu"], p.cfg["eu"].RegionToken.Value)
	eventually(t, "eu lends again", func() bool { return p.shareOf("us")+p.shareOf("asia") > 80 })
	end()
	if admitted.Load() == 0 {
		t.Error("nothing was admitted")
	}
}

// A message about shares that is refused is shown by the region that has sent it and by the one that refuses it.
func TestShares_ARefusalIsShownAtBothEnds(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.nodes["us"].create(`{"name":"r","scope":"user","span":"local_then_global","limit":90,"window_ms":1000}`)
	p.nodes["eu"].stop()
	other := p.cfg["eu"]
	list := strings.Split(other.Regions.Regions, ",")
	other.Regions.Regions = strings.Join(list[:2], ",") // asia is not on it
	eu := startWith(t, other, other.RegionToken.Value)
	shows := func(n *node, region, member, what string) {
		t.Helper()
		eventually(t, region+": "+member+" has "+what, func() bool {
			_, doc := n.send("GET", "/ratelimit/regions", "")
			for _, r := range doc["regions"].([]any) { //nolint:forcetypeassert // else the test fails
				r := r.(map[string]any) //nolint:forcetypeassert // else the test fails
				if r["name"] == region && strings.Contains(fmt.Sprint(r[member]), what) {
					return true
				}
			}
			return false
		})
	}
	shows(eu, "us", "failure", "regions are")
	shows(p.nodes["us"], "eu", "refused", "regions are")
}
