package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
)

// usersOf are the users of a scenario, some for each algorithm.
func usersOf(scenario string) (users []string) {
	for _, route := range []string{"fw", "sw", "tb", "gc"} {
		for i := range 2 {
			users = append(users, fmt.Sprintf("%s-%s-%d", route, scenario, i))
		}
	}
	return users
}

// lossy makes a fifth of connections end with a reset, and the delay vary.
func (g *globe) lossy() (heal func()) {
	g.set(everyLink, func(p *toxiproxy.Proxy) {
		toxic(g.t, p, `{"name":"reset","type":"reset_peer","toxicity":0.2,"attributes":{"timeout":0}}`)
		toxic(g.t, p, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":20,"jitter":90}}`)
	})
	return func() {
		g.set(everyLink, func(p *toxiproxy.Proxy) {
			for _, name := range []string{"reset", "late"} {
				if err := p.Toxics.RemoveToxic(g.t.Context(), name); err != nil {
					g.t.Error(err)
				}
			}
		})
	}
}

func everyLink(link) bool { return true }

// all waits until every node says the same of the exchange: degraded or not.
func (g *globe) degraded(names []string, want any) {
	g.t.Helper()
	for _, name := range names {
		for i := range 2 {
			var last any
			eventuallyOr(g.t, func() bool {
				_, doc, err := g.ask(g.t.Context(), g.node(name, i), "POST", "/ratelimit/check",
					`{"user":"nobody","route":"/fw","weight":0}`)
				last = doc["degraded"]
				return err == nil && last == want
			}, func() { g.t.Errorf("%s%d says %v, want %v", name, i, last, want) })
		}
	}
}

// under runs a scenario: load, a fault for a while, its end, load again, and the account.
func (g *globe) under(name string, c closing, fault func() (heal func())) {
	g.t.Helper()
	users := usersOf(name)
	stop := g.load(users)
	pause(500 * time.Millisecond)
	heal := fault()
	pause(time.Second)
	heal()
	g.degraded(g.names, nil)
	pause(500 * time.Millisecond)
	g.close(name, stop(), users, c)
}

// pause lets a load or a fault go on for a while.
func pause(d time.Duration) {
	<-time.After(d)
}

// usual is what a fault of links may cost: units over the limit come while news is on its way, and a cut is noticed.
var usual = closing{late: 5 * time.Second}

// Whatever happens between regions and to their nodes, every unit over a limit has a reason, and in the end every
// region has the exact sum. More faults are in regions_long_test.go.
func TestGlobe_ClosesTheAccount(t *testing.T) {
	t.Parallel()
	g := newGlobe(t, globeOptions{})
	g.under("loss", usual, g.lossy)
	g.under("two-and-one", usual, func() func() {
		heal := g.cutLinks(func(l link) bool { return (l.from == "asia") != (l.to == "asia") })
		g.degraded(g.names, "region")
		return heal
	})
	g.under("killed", usual, func() func() {
		g.node("us", 0).kill()
		return func() { g.start("us", 0) }
	})
}
