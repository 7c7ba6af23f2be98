package app

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/region/home"
	"sluice/limiter"
)

// homeOf is the region where a user is at home.
func (p *planet) homeOf(user string) string { return home.Of(limiter.Key("{user:"+user+"}"), p.names) }

// userOf returns a user who is at home in a region.
func (p *planet) userOf(region, prefix string) string {
	p.t.Helper()
	for i := range 1000 {
		if user := fmt.Sprintf("%s%d", prefix, i); p.homeOf(user) == region {
			return user
		}
	}
	p.t.Fatalf("nobody is at home in %s", region)
	return ""
}

// exact makes a rule that the home region of each key decides, and waits until every region has it.
func (p *planet) exact(route, members string) {
	p.t.Helper()
	p.nodes["eu"].create(fmt.Sprintf(`{"name":%q,"scope":"user","route":%q,"span":"global_exact",%s}`, route[1:], route,
		members))
	p.inForce(route)
}

// inForce waits until every region has a rule for a route.
func (p *planet) inForce(route string) {
	p.t.Helper()
	for _, n := range p.nodes {
		for _, home := range p.names {
			body := fmt.Sprintf(`{"user":%q,"route":%q,"weight":0}`, p.userOf(home, "nobody"), route)
			eventually(p.t, "the rule of "+route+" is in force, also in "+home, func() bool {
				doc := n.check(body)
				limits, _ := doc["limits"].([]any)
				return len(limits) > 0 && doc["degraded"] == nil
			})
		}
	}
}

// storm asks for a user in all regions at once and returns how many were admitted.
func (p *planet) storm(user, route string, each int) int {
	p.t.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for _, n := range p.nodes {
		for range 4 {
			wg.Go(func() {
				for range each / 4 {
					doc := n.check(fmt.Sprintf(`{"user":%q,"route":%q}`, user, route))
					if doc["degraded"] != nil {
						p.t.Errorf("a fail mode decided: %v", doc)
					}
					if doc["allowed"] == true {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return int(admitted.Load())
}

// A storm from all regions admits exactly the limit, whatever the algorithm and wherever the key is at home.
func TestHomes_AStormAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	day := `"limit":40,"window_ms":86400000,"algorithm":`
	for route, members := range map[string]string{
		"/fw": day + `"fixed_window"`, "/sc": day + `"sliding_window_counter"`, "/sl": day + `"sliding_window_log"`,
		"/tb": day + `"token_bucket"`, "/gc": day + `"gcra"`, "/lq": day + `"leaky_queue","burst":40`,
		"/co": day + `"concurrency"`,
	} {
		p.exact(route, members)
	}
	for i, route := range []string{"/fw", "/sc", "/sl", "/tb", "/gc", "/lq", "/co"} {
		region := p.names[i%len(p.names)]
		user := p.userOf(region, route[1:])
		if got := p.storm(user, route, 28); got != 40 {
			t.Errorf("%s, at home in %s: %d of 84 admitted, want 40", route, region, got)
		}
	}
}

// What one region does to a key, every other sees: refunds, resets, reservations, leases and the pages that look.
func TestHomes_EveryOperationGoesHome(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.exact("/fw", `"limit":10,"window_ms":86400000,"algorithm":"fixed_window"`)
	p.exact("/co", `"limit":2,"window_ms":600000,"algorithm":"concurrency"`)
	user := p.userOf("us", "ada")
	eu, asia := p.nodes["eu"], p.nodes["asia"]
	body := func(more string) string { return fmt.Sprintf(`{"user":%q,"route":"/fw"%s}`, user, more) }
	left := func(n *node) any { return n.check(body(`,"weight":0`))["remaining"] }
	if eu.check(body(`,"weight":4,"request_id":"one"`))["allowed"] != true || left(asia) != 6.0 {
		t.Fatalf("asia has %v left, want 6", left(asia))
	}
	eu.check(body(`,"weight":4,"request_id":"one"`)) // a repeat counts once
	if left(p.nodes["us"]) != 6.0 {
		t.Errorf("a repeat has counted: %v left", left(asia))
	}
	post := func(n *node, path, body string) map[string]any {
		status, doc := n.send("POST", path, body)
		if status != 200 {
			t.Fatalf("%s answered %d %v", path, status, doc)
		}
		return doc
	}
	post(asia, "/ratelimit/refund", body(`,"request_id":"one"`))
	if left(eu) != 10.0 {
		t.Errorf("a refund in asia leaves %v, want 10", left(eu))
	}
	token, _ := post(asia, "/ratelimit/reserve", body(`,"weight":5`))["reservation"].(string)
	post(asia, "/ratelimit/settle", fmt.Sprintf(`{"reservation":%q,"weight":2}`, token))
	if left(eu) != 8.0 {
		t.Errorf("a settlement in asia leaves %v, want 8", left(eu))
	}
	_, page := eu.send("POST", "/ratelimit/explain", body(""))
	if text := fmt.Sprint(page); !strings.Contains(text, "remaining:8") || !strings.Contains(text, "home:us") {
		t.Errorf("explain in eu shows %s", text)
	}
	post(eu, "/ratelimit/reset", body(""))
	if left(asia) != 10.0 {
		t.Errorf("a reset in eu leaves %v, want 10", left(asia))
	}
	slot := fmt.Sprintf(`{"user":%q,"route":"/co"}`, user)
	lease, _ := eu.check(slot)["lease"].(string)
	if lease == "" || !asia.allowed(slot) || asia.allowed(slot) {
		t.Error("two slots of two were not held together")
	}
	post(asia, "/ratelimit/release", fmt.Sprintf(`{"lease":%q}`, lease))
	if !eu.allowed(slot) {
		t.Error("a slot that was released in another region is still held")
	}
	if n := eu.metric(`sluice_region_calls_total{region="us",result="decided"}`); n < 6 {
		t.Errorf("eu counts %v calls to us", n)
	}
	if n := p.nodes["us"].metric(`sluice_region_answers_total{result="decided"}`); n < 12 {
		t.Errorf("us counts %v answers", n)
	}
}

// If the home of a key does not answer, the rule's fail mode decides and the answer says so. A check with other limits
// leaves nothing charged. After the heal the home decides again.
func TestHomes_FailModesDecideWithoutTheHome(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	day := `"limit":9,"window_ms":86400000,"algorithm":"fixed_window","fail_mode":`
	for _, mode := range []string{"open", "closed", "local"} {
		p.exact("/"+mode, day+fmt.Sprintf("%q", mode))
	}
	p.nodes["eu"].create(`{"name":"beside","scope":"user","route":"/closed","limit":100,"window_ms":86400000,
		"algorithm":"fixed_window"}`)
	user, eu := p.userOf("us", "ada"), p.nodes["eu"]
	body := func(route string) string { return fmt.Sprintf(`{"user":%q,"route":%q}`, user, route) }
	eventually(t, "both rules are in force", func() bool { return len(eu.check(body("/closed"))["limits"].([]any)) == 2 })
	beside := func() float64 {
		status, doc := eu.send("GET", "/ratelimit/rules", "")
		if status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		var left float64
		for _, l := range eu.check(fmt.Sprintf(`{"user":%q,"route":"/closed","weight":0}`, user))["limits"].([]any) {
			if limit := l.(map[string]any); limit["rule"] == "beside" {
				left, _ = limit["remaining"].(float64)
			}
		}
		return left
	}
	before := beside()
	for what, fault := range map[string]struct{ begin, end func() }{
		"cut": {func() { p.cut("us", true) }, func() { p.cut("us", false) }},
		"frozen": {func() {
			for link, proxy := range p.links {
				if link[1] == "us" {
					toxic(t, proxy, `{"type":"timeout","attributes":{"timeout":0}}`)
				}
			}
		}, func() {
			for link, proxy := range p.links {
				if link[1] == "us" {
					proxy.Toxics.ResetToxics(t.Context())
				}
			}
		}},
	} {
		fault.begin()
		eventually(t, what+": eu notices", func() bool { return eu.check(body("/open"))["degraded"] == "open" })
		if doc := eu.check(body("/open")); doc["allowed"] != true || doc["degraded"] != "open" {
			t.Errorf("%s, open: %v", what, doc)
		}
		for range 5 {
			if doc := eu.check(body("/closed")); doc["allowed"] != false || doc["degraded"] != "closed" ||
				doc["status"] != 503.0 {
				t.Errorf("%s, closed: %v", what, doc)
			}
		}
		local := 0
		for range 9 {
			if doc := eu.check(body("/local")); doc["allowed"] == true {
				local++
			} else if doc["degraded"] != "local" {
				t.Errorf("%s, local: %v", what, doc)
			}
		}
		if local > 3 {
			t.Errorf("%s: a region alone admits %d of 9, at most a third of three regions", what, local)
		}
		fault.end()
		eventually(t, what+": eu notices the heal", func() bool { return eu.check(body("/open"))["degraded"] == nil })
		eventually(t, what+": nothing stays charged", func() bool { return beside() == before })
	}
}

// A home region whose node is gone is asked again when it is back.
func TestHomes_AStoppedHomeComesBack(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.exact("/fw", `"limit":10,"window_ms":86400000,"algorithm":"fixed_window","fail_mode":"closed"`)
	user := p.userOf("asia", "eve")
	body := fmt.Sprintf(`{"user":%q,"route":"/fw"}`, user)
	if !p.nodes["eu"].allowed(body) {
		t.Fatal("denied")
	}
	p.nodes["asia"].stop()
	for _, name := range []string{"eu", "us"} {
		if doc := p.nodes[name].check(body); doc["degraded"] != "closed" {
			t.Errorf("%s without the home: %v", name, doc)
		}
	}
	p.nodes["asia"] = startWith(t, p.cfg["asia"], p.cfg["asia"].RegionToken.Value)
	for _, name := range p.names {
		eventually(t, "the home decides again for "+name, func() bool {
			return p.nodes[name].check(fmt.Sprintf(`{"user":%q,"route":"/fw","weight":0}`, user))["remaining"] == 9.0
		})
	}
	if got := p.storm(user, "/fw", 12); got != 9 {
		t.Errorf("%d of 36 admitted, want the 9 that were left", got)
	}
}

// Gateways and Envoy ask the home of a key as plain checks do: all regions and faces together have one limit.
func TestHomes_EveryFaceAsksTheHome(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	withProfile(t, p.cfg["eu"])
	month := `"limit":4,"window_ms":2592000000,"algorithm":"sliding_window_log","fail_mode":"closed"`
	p.exact("/face", month)
	p.nodes["eu"].create(`{"name":"envoy","descriptor":{"domain":"shop","entries":[{"key":"user"}]},
		"span":"global_exact",` + month + `}`)
	rls := func(region, user string, hits int) int {
		status, _ := p.nodes[region].send("POST", "/ratelimit/rls", fmt.Sprintf(
			`{"domain":"shop","hits_addend":%d,"descriptors":[{"entries":[{"key":"user","value":%q}]}]}`, hits, user))
		return status
	}
	for _, name := range p.names {
		eventually(t, name+" has the profile and the rule for Envoy", func() bool {
			status, header := p.nodes[name].ask("forward", "/face", "probe-"+name)
			return status != 404 && header.Get("RateLimit") != "" && rls(name, "probe-"+name, 5) == 429
		})
	}
	for _, home := range p.names {
		user := p.userOf(home, "ada")
		for i, name := range p.names {
			face := []string{"forward", "nginx", "ext_authz"}[i]
			if status, _ := p.nodes[name].ask(face, "/face", user); status != 200 {
				t.Errorf("%s in %s, at home in %s: %d", face, name, home, status)
			}
			if status := rls(name, user, 1); status != 200 {
				t.Errorf("rls in %s: %d", name, status)
			}
		}
		look := fmt.Sprintf(`{"user":%q,"route":"/face","weight":0}`, user)
		if left := p.nodes["us"].check(look)["remaining"]; left != 1.0 {
			t.Errorf("at home in %s: %v left of 4 after 3", home, left)
		}
		for i, name := range p.names {
			if status := rls(name, user, 2); status != 429 {
				t.Errorf("rls in %s, of 2 where 1 is left: %d", name, status)
			}
			if status, _ := p.nodes[name].ask("forward", "/face", user); status != []int{200, 429, 429}[i] {
				t.Errorf("forward in %s, where 1 is left for the first: %d", name, status)
			}
		}
	}
}
