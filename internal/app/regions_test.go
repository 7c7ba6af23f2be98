package app

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/testenv"
)

// planet is three regions, each with a Redis and a node of its own, and one Postgres. Between every two regions is a
// proxy for each direction.
type planet struct {
	t     *testing.T
	names []string
	redis map[string]*testenv.RedisServer
	nodes map[string]*node
	// links are the proxies, by the region that sends and the one that is reached.
	links map[[2]string]*toxiproxy.Proxy
	cfg   map[string]config.Serve
}

// testInterval is the interval of the exchange in tests.
const testInterval = 100 * time.Millisecond

func newPlanet(t *testing.T) *planet {
	t.Helper()
	p := &planet{t: t, names: []string{"eu", "us", "asia"}, redis: map[string]*testenv.RedisServer{},
		nodes: map[string]*node{}, links: map[[2]string]*toxiproxy.Proxy{}, cfg: map[string]config.Serve{}}
	base := settings(t)
	base.DatabaseURL.Value, base.RegionInterval, base.RegionShareInterval = withSchema(t), testInterval, time.Second
	base.RegionTimeout = 2 * time.Second
	_, secret, err := CreateToken(t.Context(), base.Storage,
		NewToken{Name: "regions", Scopes: []access.Scope{access.ScopeAdmin}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	base.RegionToken.Value = secret
	listens := map[string]string{}
	for _, name := range p.names {
		p.redis[name], listens[name] = testenv.Redis(t), testenv.FreeAddr(t)
	}
	for _, name := range p.names {
		cfg := base
		cfg.DataDir, cfg.Region, cfg.Listen, cfg.RedisURL.Value = t.TempDir(), name, listens[name], p.redis[name].URL()
		var list []string
		for _, to := range p.names {
			address := listens[to]
			if to != name {
				link := proxyOf(t, address)
				p.links[[2]string{name, to}] = link
				address = link.Listen
			}
			list = append(list, to+"=http://"+address)
		}
		cfg.Regions.Regions = strings.Join(list, ",")
		p.cfg[name] = cfg
	}
	for _, name := range p.names {
		p.nodes[name] = startWith(t, p.cfg[name], secret)
	}
	return p
}

// proxyOf puts a proxy in front of a server that need not be there yet.
func proxyOf(t *testing.T, address string) *toxiproxy.Proxy {
	t.Helper()
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "region",
		"127.0.0.1:0", address)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	for _, stream := range []string{"upstream", "downstream"} {
		toxic(t, proxy, fmt.Sprintf(`{"name":%[1]q,"stream":%[1]q,"type":"latency","attributes":{"latency":20,"jitter":10}}`,
			stream))
	}
	return proxy
}

// toxic adds a toxic by its JSON form.
func toxic(t *testing.T, proxy *toxiproxy.Proxy, form string) {
	t.Helper()
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(form)); err != nil {
		t.Fatal(err)
	}
}

// startWith is start with a credential.
func startWith(t *testing.T, cfg config.Serve, secret string) *node {
	t.Helper()
	n := start(t, cfg)
	n.token = secret
	return n
}

// create makes a rule and waits until every region has it and hears the others.
func (p *planet) create(name, members string) {
	p.t.Helper()
	p.nodes["eu"].create(fmt.Sprintf(`{"name":%q,"scope":"user","span":"global",%s}`, name, members))
	for _, n := range p.nodes {
		eventually(p.t, "the rule is in force", func() bool {
			doc := n.check(`{"user":"nobody","weight":0}`)
			return len(doc["limits"].([]any)) > 0 && doc["degraded"] == nil
		})
	}
}

// remaining is what a region has left for a user.
func (p *planet) remaining(at, user string) float64 {
	p.t.Helper()
	left, _ := p.nodes[at].check(fmt.Sprintf(`{"user":%q,"weight":0}`, user))["remaining"].(float64)
	return left
}

// agree waits until every region has so much left.
func (p *planet) agree(user string, want float64) {
	p.t.Helper()
	for _, name := range p.names {
		eventually(p.t, fmt.Sprintf("%s has %v left", name, want), func() bool { return p.remaining(name, user) == want })
	}
}

// cut parts a region from the others, or heals the cut.
func (p *planet) cut(region string, cut bool) {
	p.t.Helper()
	for link, proxy := range p.links {
		switch {
		case link[0] != region && link[1] != region:
		case cut:
			proxy.Stop()
		default:
			if err := proxy.Start(); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// degraded is what a region's answers say.
func (p *planet) degraded(at string) any {
	p.t.Helper()
	return p.nodes[at].check(`{"user":"nobody","weight":0}`)["degraded"]
}

// spend takes units until it has tried so many times, and returns how many were admitted.
func (p *planet) spend(at, user string, tries int) (admitted int) {
	p.t.Helper()
	for range tries {
		if p.nodes[at].allowed(fmt.Sprintf(`{"user":%q}`, user)) {
			admitted++
		}
	}
	return admitted
}

// take takes units, and waits where the region is held to its share.
func (p *planet) take(at, user string, units int) {
	p.t.Helper()
	for range units {
		eventually(p.t, at+" admits a unit", func() bool { return p.nodes[at].allowed(fmt.Sprintf(`{"user":%q}`, user)) })
	}
}

// What a region spends counts in all others, whatever was lost meanwhile.
func TestRegions_HaveALimitTogether(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.create("r", `"limit":100,"window_ms":86400000,"algorithm":"fixed_window"`)
	p.take("eu", "ada", 30)
	p.take("us", "ada", 20)
	p.agree("ada", 50)
	if status, doc := p.nodes["asia"].send("POST", "/ratelimit/reset", `{"user":"ada"}`); status != 200 {
		t.Fatalf("reset answered %d %v", status, doc)
	}
	p.agree("ada", 100)
	var wg sync.WaitGroup
	for _, name := range p.names {
		wg.Go(func() { p.spend(name, "bob", 60) })
	}
	wg.Wait()
	eventually(t, "the rest is spent", func() bool {
		return p.spend("eu", "bob", 3) == 0 && p.remaining("eu", "bob") == 0
	})
	p.agree("bob", 0)
	for _, name := range p.names {
		if p.spend(name, "bob", 3) > 0 {
			t.Errorf("%s admits more after everything has arrived", name)
		}
	}
	_, doc := p.nodes["eu"].send("GET", "/ratelimit/regions", "")
	if doc["enabled"] != true || doc["cut_off"] != false || len(doc["regions"].([]any)) != 2 {
		t.Errorf("the regions are %v", doc)
	}
}

// A region that is cut off spends what the rule says, its answers say so, and after the heal the account closes.
func TestRegions_ACutIsNoticedAndHealed(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.create("r", `"limit":90,"window_ms":86400000,"algorithm":"fixed_window"`)
	before := p.spend("eu", "ada", 6)
	p.agree("ada", 84)
	p.cut("asia", true)
	for _, name := range p.names {
		eventually(t, name+" notices that it is cut off", func() bool { return p.degraded(name) == "region" })
	}
	admitted := before
	for _, name := range p.names {
		admitted += p.spend(name, "ada", 60)
	}
	if admitted > 90 {
		t.Errorf("%d of 90 admitted while one had a third and the others two", admitted)
	}
	if got := p.spend("asia", "eve", 60); got != 30 {
		t.Errorf("a region alone admits %d of a new user, want a third of 90", got)
	}
	p.cut("asia", false)
	for _, name := range p.names {
		eventually(t, name+" notices the heal", func() bool { return p.degraded(name) == nil })
	}
	p.agree("ada", float64(90-admitted))
	p.agree("eve", 60)
}

// What a cut region may spend is said by the rule. The link is half open: nothing arrives, and nothing says so.
func TestRegions_CutOffAloneAndClosed(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.nodes["eu"].create(`{"name":"closed","scope":"user","route":"/closed","span":"global","cut_off":"closed",
		"limit":20,"window_ms":86400000,"fail_mode":"open"}`)
	p.nodes["eu"].create(`{"name":"alone","scope":"user","route":"/alone","span":"global","cut_off":"alone",
		"limit":20,"window_ms":86400000,"algorithm":"token_bucket"}`)
	us := p.nodes["us"]
	cut := func() bool { return us.check(`{"user":"a","route":"/alone","weight":0}`)["degraded"] == "region" }
	eventually(t, "us hears the others after its start", func() bool { return !cut() })
	for link, proxy := range p.links {
		if link[0] == "us" || link[1] == "us" {
			toxic(t, proxy, `{"type":"timeout","attributes":{"timeout":0}}`)
			toxic(t, proxy, `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
		}
	}
	eventually(t, "us notices", cut)
	for i := range 21 {
		if got := us.allowed(`{"user":"ada","route":"/alone"}`); got != (i < 20) {
			t.Errorf("request %d of 20, alone: %v", i+1, got)
		}
	}
	eventually(t, "us denies", func() bool { // what was under way before the links stood still may have arrived
		doc := us.check(`{"user":"ada","route":"/closed"}`)
		return doc["allowed"] == false && doc["status"] == float64(503) && doc["degraded"] == "region"
	})
	for _, proxy := range p.links {
		proxy.Toxics.ResetToxics(t.Context())
	}
	eventually(t, "us notices the heal", func() bool {
		return us.check(`{"user":"eve","route":"/closed"}`)["allowed"] == true
	})
	eventually(t, "eu has what us has spent", func() bool {
		return p.nodes["eu"].check(`{"user":"ada","route":"/alone","weight":0}`)["remaining"] == float64(0)
	})
}

// A node that is stopped leaves nothing untold: what it has spent is in its Redis, and another tells of it.
func TestRegions_AStoppedNodeLeavesNothingUntold(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	p.create("r", `"limit":100,"window_ms":86400000,"cut_off":"alone"`)
	p.nodes["us"].stop()
	if got := p.spend("eu", "ada", 40); got != 40 {
		t.Fatalf("%d of 40 admitted", got)
	}
	p.nodes["eu"].stop()
	for _, name := range []string{"eu", "us"} {
		p.nodes[name] = startWith(t, p.cfg[name], p.cfg[name].RegionToken.Value)
	}
	p.agree("ada", 60)
}

// A Redis belongs to one region, and a server to a list that names it once.
func TestRegions_ANodeOfAnotherRegionIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlanet(t)
	wrong := p.cfg["us"]
	wrong.DataDir, wrong.Listen, wrong.RedisURL.Value = t.TempDir(), "127.0.0.1:0", p.redis["eu"].URL()
	if _, err := tryStart(t, wrong); err == nil || !strings.Contains(err.Error(), `use "eu"`) {
		t.Errorf("a node of us on the Redis of eu: %v", err)
	}
	other := p.cfg["eu"]
	other.DataDir, other.Listen, other.KeyPrefix = t.TempDir(), "127.0.0.1:0", "other:"
	startWith(t, other, other.RegionToken.Value)
	eventually(t, "us shows that it has refused another prefix", func() bool {
		_, doc := p.nodes["us"].send("GET", "/ratelimit/regions", "")
		return strings.Contains(fmt.Sprint(doc["regions"]), `prefix is "other:"`)
	})
}
