package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"sluice/internal/access"
	"sluice/internal/testenv"
)

// globe is three regions in processes of their own: each has a Redis behind a proxy and two nodes, and all have one
// Postgres. Between every two regions is a proxy for each direction and node.
type globe struct {
	t            *testing.T
	bin          string
	env          []string // of all nodes
	names        []string
	redis        map[string]*testenv.RedisServer
	toRedis      map[string]*toxiproxy.Proxy
	toPostgres   map[string]*toxiproxy.Proxy
	links        map[link]*toxiproxy.Proxy
	listen       map[string][2]string
	mu           sync.Mutex
	nodes        map[string][2]*child
	token        string
	regionToken  string
	leftOut      string // a region that is not in the lists of the others
	limits       map[string]int64
	postgresName string
}

// link is the way of one region to one node of another.
type link struct {
	from, to string
	node     int
}

// globeOptions say how a globe differs from the usual one.
type globeOptions struct {
	env     []string          // further settings of all nodes
	bin     string            // what a node runs, by default the program
	cluster string            // this region has a Redis Cluster
	args    map[string]string // members of rules by route, besides the usual ones
}

// spent is one unit that was let through.
type spent struct {
	at       time.Time
	region   string
	degraded string
}

// account is what became of requests, by user.
type account struct {
	mu       sync.Mutex
	admitted map[string][]spent
	unknown  map[string]int // requests without an answer: they may have been counted
	offered  int
}

func newGlobe(t *testing.T, opt globeOptions) *globe {
	t.Helper()
	g := &globe{t: t, names: []string{"eu", "us", "asia"}, redis: map[string]*testenv.RedisServer{},
		toRedis: map[string]*toxiproxy.Proxy{}, toPostgres: map[string]*toxiproxy.Proxy{},
		links: map[link]*toxiproxy.Proxy{}, listen: map[string][2]string{}, nodes: map[string][2]*child{},
		limits: map[string]int64{}, bin: cmp.Or(opt.bin, testenv.Sluice(t))}
	base := settings(t)
	base.DatabaseURL.Value = withSchema(t)
	for scope, secret := range map[access.Scope]*string{access.ScopeAdmin: &g.token, access.ScopeRegions: &g.regionToken} {
		var err error
		_, *secret, err = CreateToken(t.Context(), base.Storage,
			NewToken{Name: string(scope), Scopes: []access.Scope{scope}, By: "test"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
	g.env = append([]string{"SLUICE_STORE_TIMEOUT=500ms", "SLUICE_DRAIN_DELAY=200ms",
		"SLUICE_DECISION_LOG=off", "SLUICE_REGION_TOKEN=" + g.regionToken}, opt.env...)
	for _, name := range g.names {
		url := g.ownRedis(name, opt)
		g.env = append(g.env, "REDIS_OF_"+name+"="+url)
		g.listen[name] = [2]string{testenv.FreeAddr(t), testenv.FreeAddr(t)}
		g.toPostgres[name], g.postgresName = postgresProxy(t, base.DatabaseURL.Value)
	}
	for _, from := range g.names {
		for _, to := range g.names {
			for i := range 2 {
				if from != to {
					g.links[link{from, to, i}] = proxyOf(t, g.listen[to][i])
				}
			}
		}
	}
	var starting sync.WaitGroup
	for _, name := range g.names {
		for i := range 2 {
			starting.Go(func() { g.start(name, i) })
		}
	}
	starting.Wait()
	for route, members := range map[string]string{
		"fw": `"algorithm":"fixed_window","window_ms":86400000,"limit":120`,
		"sw": `"algorithm":"sliding_window_counter","window_ms":86400000,"limit":120`,
		"tb": `"algorithm":"token_bucket","window_ms":2592000000,"limit":120,"burst":120`,
		"gc": `"algorithm":"gcra","window_ms":86400000,"limit":1,"burst":120,"cut_off":"alone"`,
	} {
		g.rule("POST", "/ratelimit/rules", fmt.Sprintf(`{"name":%q,"route":"/%s","scope":"user","span":"global",
			"fail_mode":"closed",%s%s}`, route, route, members, opt.args[route]))
		g.limits[route] = 120
	}
	for route := range g.limits {
		whole := func(doc map[string]any) bool { return doc["degraded"] == nil && doc["remaining"] == 120. }
		g.everywhere("rule "+route, whole,
			fmt.Sprintf(`{"user":"nobody","route":"/%s","weight":0}`, route))
	}
	return g
}

// ownRedis starts the Redis of a region and returns its address, behind a proxy if it is one server.
func (g *globe) ownRedis(name string, opt globeOptions) string {
	g.t.Helper()
	if opt.cluster == name {
		return testenv.Cluster(g.t).URL()
	}
	g.redis[name] = testenv.Redis(g.t)
	g.toRedis[name] = bareProxy(g.t, g.redis[name].Addr)
	return "redis://" + g.toRedis[name].Listen + "/0"
}

// bareProxy is a proxy that adds no delay.
func bareProxy(t *testing.T, address string) *toxiproxy.Proxy {
	t.Helper()
	proxy := proxyOf(t, address)
	proxy.Toxics.ResetToxics(t.Context())
	return proxy
}

// postgresProxy puts a proxy before Postgres and returns it with the address through it.
func postgresProxy(t *testing.T, dsn string) (*toxiproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := bareProxy(t, u.Host)
	return proxy, dsn
}

// start starts a node; it may run already.
func (g *globe) start(name string, i int) {
	var list []string
	var redis string
	for _, to := range g.names {
		if to == g.leftOut && name != to {
			continue
		}
		var addresses []string
		for j := range 2 {
			address := g.listen[to][j]
			if to != name {
				address = g.links[link{name, to, j}].Listen
			}
			addresses = append(addresses, "http://"+address)
		}
		list = append(list, to+"="+strings.Join(addresses, "|"))
	}
	for _, e := range g.env {
		if v, ok := strings.CutPrefix(e, "REDIS_OF_"+name+"="); ok {
			redis = v
		}
	}
	u, _ := url.Parse(g.postgresName)
	u.Host = g.toPostgres[name].Listen
	env := append(slices.Clone(g.env), "DATABASE_URL="+u.String(), "REDIS_URL="+redis, "SLUICE_REGION="+name,
		"SLUICE_REGIONS="+strings.Join(list, ","), "SLUICE_LISTEN="+g.listen[name][i])
	c := spawn(g.t, g.bin, "", env...)
	g.mu.Lock()
	defer g.mu.Unlock()
	both := g.nodes[name]
	both[i] = c
	g.nodes[name] = both
}

func (g *globe) node(name string, i int) *child {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[name][i]
}

// ask makes one request with a token.
func (g *globe) ask(ctx context.Context, c *child, method, path, body string) (int, map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	var doc map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	return res.StatusCode, doc, err
}

// rule changes a rule and returns the answer.
func (g *globe) rule(method, path, body string) map[string]any {
	g.t.Helper()
	status, doc, err := g.ask(g.t.Context(), g.node("eu", 0), method, path, body)
	if err != nil || status >= 300 {
		g.t.Fatalf("%s %s: %d %v %v", method, path, status, doc, err)
	}
	return doc
}

// everywhere waits until every node answers a check as it should.
func (g *globe) everywhere(what string, ok func(map[string]any) bool, body string) {
	g.t.Helper()
	for _, name := range g.names {
		for i := range 2 {
			var last map[string]any
			eventuallyOr(g.t, func() bool {
				_, doc, err := g.ask(g.t.Context(), g.node(name, i), "POST", "/ratelimit/check", body)
				last = doc
				return err == nil && ok(doc)
			}, func() { g.t.Errorf("%s at %s%d: %v", what, name, i, last) })
		}
	}
}

// eventuallyOr polls, and says what is wrong in the end.
func eventuallyOr(t *testing.T, ok func() bool, wrong func()) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			wrong()
			return
		case <-tick.C:
		}
	}
}

// load asks every region for units of some users until the returned function is called, which returns the account.
func (g *globe) load(users []string) func() *account {
	a := &account{admitted: map[string][]spent{}, unknown: map[string]int{}}
	ctx, cancel := context.WithCancel(g.t.Context())
	var wg sync.WaitGroup
	for _, name := range g.names {
		for range 3 {
			wg.Go(func() {
				tick := time.NewTicker(6 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-tick.C:
						g.one(a, name, users[rand.IntN(len(users))], rand.IntN(2)) //nolint:gosec // a load
					}
				}
			})
		}
	}
	return func() *account {
		cancel()
		wg.Wait()
		return a
	}
}

// one asks for a unit of a user, whose name begins with the route.
func (g *globe) one(a *account, name, user string, node int) {
	c := g.node(name, node)
	route, _, _ := strings.Cut(user, "-")
	_, doc, err := g.ask(context.Background(), c, "POST", "/ratelimit/check",
		fmt.Sprintf(`{"user":%q,"route":"/%s"}`, user, route))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.offered++
	degraded, _ := doc["degraded"].(string)
	switch {
	case err != nil && strings.Contains(err.Error(), "connection refused"):
	case err != nil:
		a.unknown[user]++
	case doc["allowed"] == true:
		a.admitted[user] = append(a.admitted[user], spent{time.Now(), name, degraded})
	case degraded == "closed": // Redis may have counted it and not said so
		a.unknown[user]++
	}
}

// used is what a node has counted of a user. The limit must be above that.
func (g *globe) used(c *child, user string) (int64, string) {
	route, _, _ := strings.Cut(user, "-")
	_, doc, err := g.ask(g.t.Context(), c, "POST", "/ratelimit/check", fmt.Sprintf(`{"user":%q,"route":"/%s","weight":0}`,
		user, route))
	if err != nil {
		return -1, err.Error()
	}
	left, ok := doc["remaining"].(float64)
	if !ok {
		return -1, fmt.Sprint(doc)
	}
	return g.limits[route] - int64(left), fmt.Sprint(doc["degraded"])
}

// raise raises or lowers every limit, which changes no state, so that counts above a limit can be read.
func (g *globe) raise(high bool) {
	g.t.Helper()
	limit := int64(120)
	if high {
		limit = 100_000
	}
	page := g.rule("GET", "/ratelimit/rules", "")
	for _, r := range page["rules"].([]any) {
		r := r.(map[string]any)
		name, member := r["name"].(string), "limit"
		if name == "tb" || name == "gc" {
			member = "burst"
		}
		g.rule("PATCH", fmt.Sprintf("/ratelimit/rules/%v", r["id"]), fmt.Sprintf(`{%q:%d}`, member, limit))
		g.limits[name] = limit
		g.everywhere("the limit of "+name, func(doc map[string]any) bool { return doc["remaining"] == float64(limit) },
			fmt.Sprintf(`{"user":"nobody","route":"/%s","weight":0}`, name))
	}
}

// closing is what a scenario may leave in the account.
type closing struct {
	late time.Duration // units over the limit come at most so long after the limit was reached, if they are not of a cut
	// leased: nodes hold leases of hot keys, which count when they are leased: regions may have more than was let through.
	leased bool
	lost   bool // a Redis has lost something: regions need not have the same, and no more than was admitted
}

// close closes the account of some users: every unit over the limit has a reason, and every region has the exact sum.
func (g *globe) close(name string, a *account, users []string, c closing) {
	g.t.Helper()
	g.raise(true)
	defer g.raise(false)
	within, over, cut, lost, unknown := 0, 0, 0, 0, 0
	for _, user := range users {
		units := a.admitted[user]
		slices.SortFunc(units, func(a, b spent) int { return a.at.Compare(b.at) })
		within += min(len(units), 120)
		unknown += a.unknown[user]
		for _, u := range units[min(len(units), 120):] {
			switch {
			case u.degraded != "":
				cut++
			case c.lost:
				lost++
			case u.at.Sub(units[119].at) <= c.late:
				over++
			default:
				g.t.Errorf("%s: %s admitted a unit of %s %v after the limit was reached, without a reason", name, u.region, user,
					u.at.Sub(units[119].at))
			}
		}
		least, most := int64(len(units)), int64(len(units)+a.unknown[user])
		if c.lost {
			least = 0
		}
		if route, _, _ := strings.Cut(user, "-"); route == "gc" { // holds one burst at most
			least, most = min(least, 120), min(most, 120)
		}
		if c.leased {
			most = 1 << 40
		}
		figures := map[string]int64{}
		eventuallyOr(g.t, func() bool {
			clear(figures)
			for _, region := range g.names {
				for i := range 2 {
					n, _ := g.used(g.node(region, i), user)
					figures[region] = n
					if n < least || n > most || !c.lost && n != figures["eu"] {
						return false
					}
				}
			}
			return true
		}, func() {
			g.t.Errorf("%s: %s has %d to %d units, the regions say %v", name, user, least, most, figures)
		})
	}
	g.t.Logf("%-40s %5d asked, %5d within the limits, %3d over by lag, %3d lost, %3d while cut off, %d unanswered", name,
		a.offered, within, over, lost, cut, unknown)
}

// set changes all links for which which is true.
func (g *globe) set(which func(link) bool, change func(*toxiproxy.Proxy)) {
	for l, p := range g.links {
		if which(l) {
			change(p)
		}
	}
}

// cutLinks parts regions of different groups; heal ends it.
func (g *globe) cutLinks(which func(link) bool) (heal func()) {
	g.set(which, func(p *toxiproxy.Proxy) { p.Stop() })
	return func() {
		g.set(which, func(p *toxiproxy.Proxy) {
			if err := p.Start(); err != nil {
				g.t.Error(err)
			}
		})
	}
}
