//go:build regions

package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/region/home"
	"sluice/limiter"
)

// exactLoad is what became of checks of rules with span global_exact, by key as in "xfw user:ada".
type exactLoad struct {
	mu       sync.Mutex
	admitted map[string]int
	unknown  map[string]int // the region that was asked did not answer
	offered  int
	degraded int
}

// exactRules are the limits of the rules, by route and scope. A check of xm has two limits, of different entities.
var exactRules = map[string]string{
	"xfw user": `"algorithm":"fixed_window","window_ms":2592000000,"limit":40`,
	"xco user": `"algorithm":"concurrency","window_ms":3600000,"limit":40`,
	"xm user":  `"algorithm":"sliding_window_log","window_ms":2592000000,"limit":40`,
	"xm ip":    `"algorithm":"sliding_window_counter","window_ms":2592000000,"limit":25`,
}

// newExact is a globe with these rules.
func newExact(t *testing.T, opt globeOptions) *globe {
	t.Helper()
	g := newGlobe(t, opt)
	for of, members := range exactRules {
		route, scope, _ := strings.Cut(of, " ")
		g.rule("POST", "/ratelimit/rules", fmt.Sprintf(`{"name":"%s-%s","route":"/%s","scope":%q,"span":"global_exact",
			"fail_mode":"closed",%s}`, route, scope, route, scope, members))
	}
	for route, limits := range map[string]int{"xfw": 1, "xco": 1, "xm": 2} {
		for i := range 9 { // of all homes
			g.everywhere("rules of "+route, func(doc map[string]any) bool {
				said, _ := doc["limits"].([]any)
				return len(said) == limits && doc["degraded"] == nil
			}, fmt.Sprintf(`{"user":"nobody%d","ip":"10.9.9.%d","route":"/%s","weight":0}`, i, i, route))
		}
	}
	return g
}

// exactUsers returns users of each home for each route, with an address each.
func (g *globe) exactUsers(scenario string, number int) (bodies []string) {
	for _, route := range []string{"xfw", "xco", "xm"} {
		for _, name := range g.names {
			for i := 0; ; i++ {
				user := fmt.Sprintf("%s-%s-%d", route, scenario, i)
				if home.Of(limiter.Key("{user:"+user+"}"), g.names) == name {
					ip := fmt.Sprintf("10.%d.%d.1", number, len(bodies))
					bodies = append(bodies, fmt.Sprintf(`{"user":%q,"ip":%q,"route":"/%s"`, user, ip, route))
					break
				}
			}
		}
	}
	return bodies
}

// exactOnce makes one check.
func (g *globe) exactOnce(a *exactLoad, name string, node int, body string) {
	status, doc, err := g.ask(context.Background(), g.node(name, node), "POST", "/ratelimit/check", body+"}")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.offered++
	switch {
	case err != nil && strings.Contains(err.Error(), "connection refused"):
	case err != nil:
		a.unknown[body]++
	case status != 200:
		g.t.Errorf("a check is answered %d %v", status, doc)
	case doc["degraded"] != nil:
		a.degraded++
	case doc["allowed"] == true:
		a.admitted[body]++
	}
}

// exactUnder runs a scenario and closes the account: no limit is exceeded, and soon every limit has counted exactly
// what was admitted, so that whatever a failure has left charged was given back.
func (g *globe) exactUnder(scenario string, number int, fault func() (heal func())) {
	g.t.Helper()
	bodies := g.exactUsers(scenario, number)
	a := &exactLoad{admitted: map[string]int{}, unknown: map[string]int{}}
	ctx, cancel := context.WithCancel(g.t.Context())
	var wg sync.WaitGroup
	for at, name := range g.names {
		for node := range 2 {
			wg.Go(func() {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for i := at + node; ctx.Err() == nil; i++ {
					g.exactOnce(a, name, node, bodies[i%len(bodies)])
					<-tick.C
				}
			})
		}
	}
	pause(300 * time.Millisecond)
	heal := fault()
	pause(time.Second)
	heal()
	pause(500 * time.Millisecond)
	cancel()
	wg.Wait()
	var wrong string
	holds := func() bool {
		for _, body := range bodies {
			if wrong = g.exactWrong(a, body); wrong != "" {
				return false
			}
		}
		return true
	}
	for range 3 { // what is given back is given back within a minute
		var last bool
		eventuallyOr(g.t, func() bool { last = holds(); return last }, func() {})
		if last {
			break
		}
	}
	if wrong != "" {
		g.t.Errorf("%s: %s", scenario, wrong)
	}
	admitted := 0
	for _, n := range a.admitted {
		admitted += n
	}
	g.t.Logf("%-22s %5d asked, %4d admitted, %4d degraded", scenario, a.offered, admitted, a.degraded)
}

// exactWrong says what is wrong with the count of a key, "" if nothing is.
func (g *globe) exactWrong(a *exactLoad, body string) string {
	for _, name := range g.names {
		status, doc, err := g.ask(g.t.Context(), g.node(name, 0), "POST", "/ratelimit/check", body+`,"weight":0}`)
		if err != nil || status != 200 || doc["degraded"] != nil {
			return fmt.Sprintf("%s: %d %v %v", name, status, doc, err)
		}
		for _, l := range doc["limits"].([]any) {
			l := l.(map[string]any)
			limit, left := l["limit"].(float64), l["remaining"].(float64)
			if got, least := int(limit-left), a.admitted[body]; got < least || got > least+a.unknown[body] {
				return fmt.Sprintf("%s of %s has counted %d, %d were admitted and %d not answered", l["rule"], body, got, least,
					a.unknown[body])
			}
		}
	}
	return ""
}

// frozen stops nodes of a region without ending them.
func (g *globe) frozen(region string, nodes ...int) (heal func()) {
	for _, i := range nodes {
		g.node(region, i).signal(syscall.SIGSTOP)
	}
	return func() {
		for _, i := range nodes {
			g.node(region, i).signal(syscall.SIGCONT)
		}
	}
}

// killed ends nodes of a region at once and starts them again.
func (g *globe) killed(region string, nodes ...int) (heal func()) {
	for _, i := range nodes {
		g.node(region, i).kill()
	}
	return func() {
		for _, i := range nodes {
			g.start(region, i)
		}
	}
}

// exactFaults are faults of a home and of the links to it.
func (g *globe) exactFaults(region string) map[string]func() func() {
	apart := func(l link) bool { return (l.from == region) != (l.to == region) }
	return map[string]func() func(){
		"node-frozen":   func() func() { return g.frozen(region, 0) },
		"region-frozen": func() func() { return g.frozen(region, 0, 1) },
		"node-killed":   func() func() { return g.killed(region, 1) },
		"region-killed": func() func() { return g.killed(region, 0, 1) },
		"half-open":     func() func() { return g.halfOpen(region) },
		"loss":          g.lossy,
		"cut":           func() func() { return g.cutLinks(apart) },
		"rolling": func() func() {
			for i := range 2 {
				if err := g.node(region, i).end(); err != nil {
					g.t.Errorf("asked to end, it ended with %v", err)
				}
				g.start(region, i)
			}
			return func() {}
		},
	}
}

// Whatever happens to the home of keys and the way to it, no limit of span global_exact is exceeded, and what is
// counted is what was admitted.
func TestGlobeExact_FaultsOfAHome(t *testing.T) {
	g := newExact(t, globeOptions{})
	number := 1
	for name, fault := range g.exactFaults("us") {
		g.exactUnder(name, number, fault)
		number++
	}
}

func TestGlobeExact_AClusterAsHome(t *testing.T) {
	g := newExact(t, globeOptions{cluster: "us"})
	faults := g.exactFaults("us")
	for number, name := range []string{"node-frozen", "node-killed", "half-open", "loss"} {
		g.exactUnder(name, number+1, faults[name])
	}
}
