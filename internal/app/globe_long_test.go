//go:build regions

package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/alecthomas/kong"

	"sluice/internal/config"
	"sluice/internal/telemetry"
	"sluice/internal/testenv"
)

// hotNode, in the environment of this test binary, makes it a node whose keys are hot from 10 checks a second.
const hotNode = "HOT_NODE"

func init() {
	if os.Getenv(hotNode) == "" {
		return
	}
	cfg := config.Serve{Fixed: config.Fixed{HotKeyRate: 10}}
	parser, err := kong.New(&cfg, config.SecretFlags())
	if err == nil {
		_, err = parser.Parse(os.Args[2:]) // after serve
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err = Run(ctx, cfg, Host{Out: os.Stdout, Log: telemetry.Log(os.Stderr, cfg.LogLevel, cfg.LogFormat), Now: time.Now})
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// links are the faults of links, by name.
func linkFaults(g *globe) map[string]func() func() {
	cut := func(which func(link) bool, who ...string) func() func() {
		return func() func() {
			heal := g.cutLinks(which)
			g.degraded(who, "region")
			return heal
		}
	}
	return map[string]func() func(){
		"loss":     g.lossy,
		"jitter":   g.late,
		"one-way":  cut(func(l link) bool { return l.from == "eu" }, "eu", "us", "asia"),
		"two-one":  cut(func(l link) bool { return (l.from == "asia") != (l.to == "asia") }, "eu", "us", "asia"),
		"one-each": cut(everyLink, "eu", "us", "asia"),
		"halfopen": func() func() {
			heal := g.halfOpen("us")
			g.degraded(g.names, "region")
			return heal
		},
	}
}

// late makes links slow, each message by another time.
func (g *globe) late() (heal func()) {
	g.set(everyLink, func(p *toxiproxy.Proxy) {
		toxic(g.t, p, `{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":100,"jitter":50}}`)
	})
	return func() {
		g.set(everyLink, func(p *toxiproxy.Proxy) {
			if err := p.Toxics.RemoveToxic(g.t.Context(), "late"); err != nil {
				g.t.Error(err)
			}
		})
	}
}

// nodeFaults are the faults of nodes.
func nodeFaults(g *globe) map[string]func() func() {
	return map[string]func() func(){
		"killed": func() func() {
			g.node("us", 0).kill()
			return func() { g.start("us", 0) }
		},
		"region-killed": func() func() {
			g.node("us", 0).kill()
			g.node("us", 1).kill()
			g.degraded([]string{"eu", "asia"}, "region")
			return func() { g.start("us", 0); g.start("us", 1) }
		},
		"rolling": func() func() {
			for _, name := range g.names {
				if err := g.node(name, 1).end(); err != nil {
					g.t.Errorf("asked to end, it ended with %v", err)
				}
				g.start(name, 1)
			}
			return func() {}
		},
		"restart-storm-in-a-cut": func() func() {
			heal := g.cutLinks(func(l link) bool { return (l.from == "asia") != (l.to == "asia") })
			g.degraded(g.names, "region")
			for range 3 {
				g.node("asia", 0).kill()
				g.start("asia", 0)
			}
			return heal
		},
	}
}

// all runs scenarios one after another.
func (g *globe) all(c closing, faults map[string]func() func()) {
	for name, fault := range faults {
		g.under(name, c, fault)
	}
}

func TestGlobeLong_LinksAndNodes(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	g.all(usual, linkFaults(g))
	g.all(usual, nodeFaults(g))
}

// Leases of hot keys, and no deny cache.
func TestGlobeLong_LeasesAndNoDenyCache(t *testing.T) {
	hot := `,"hot_keys":"leased"`
	g := newGlobe(t, globeOptions{env: []string{"SLUICE_DENY_CACHE=off", hotNode + "=1"}, bin: os.Args[0],
		args: map[string]string{"fw": hot, "sw": hot}})
	leased := closing{late: usual.late, leased: true}
	g.all(leased, linkFaults(g))
}

// One region has a Redis Cluster.
func TestGlobeLong_ACluster(t *testing.T) {
	g := newGlobe(t, globeOptions{cluster: "eu"})
	faults := linkFaults(g)
	faults["killed"] = func() func() {
		g.node("eu", 0).kill()
		return func() { g.start("eu", 0) }
	}
	g.all(usual, faults)
}

// A Redis comes back empty, and one fails over to a replica that lacks the last writes. What they have lost is lost,
// and nothing else: afterwards new users have the exact sum everywhere.
func TestGlobeLong_RedisLosesWrites(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	g.under("restarted-empty", closing{lost: true}, func() func() {
		g.redis["eu"].Kill()
		g.redis["eu"].Restart()
		return func() {}
	})
	g.under("after-restart", usual, g.lossy)
	host, port, err := net.SplitHostPort(g.redis["us"].Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := testenv.Redis(t, "--replicaof", host+" "+port)
	command := func(args ...string) string {
		out, err := replica.Command(t.Context(), args...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(command("INFO", "replication"), "master_link_status:up")
	})
	g.under("failed-over", closing{lost: true}, func() func() {
		command("REPLICAOF", "NO", "ONE")
		pause(300 * time.Millisecond) // of writes that the replica lacks
		g.toRedis["us"].Stop()
		g.redis["us"].Kill()
		g.toRedis["us"].Upstream = replica.Addr
		if err := g.toRedis["us"].Start(); err != nil {
			t.Error(err)
		}
		return func() {}
	})
	g.under("after-failover", usual, g.lossy)
}

// Rules edited while a region reaches neither the others nor Postgres are in force there soon after the heal.
func TestGlobeLong_RulesEditedWhileCutOff(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	g.under("edited", usual, func() func() {
		heal := g.cutLinks(func(l link) bool { return (l.from == "asia") != (l.to == "asia") })
		g.toPostgres["asia"].Stop()
		g.rule("POST", "/ratelimit/rules", `{"name":"new","route":"/new","scope":"user","span":"global","fail_mode":"closed",
			"algorithm":"fixed_window","window_ms":86400000,"limit":50}`)
		g.degraded(g.names, "region")
		for i := range 10 {
			node := g.node([]string{"eu", "us"}[i%2], 0)
			if _, doc, err := g.ask(t.Context(), node, "POST", "/ratelimit/check", `{"user":"zoe","route":"/new"}`); err != nil ||
				doc["allowed"] != true {
				t.Errorf("%v %v", doc, err)
			}
		}
		return func() {
			if err := g.toPostgres["asia"].Start(); err != nil {
				t.Error(err)
			}
			heal()
			healed := time.Now()
			g.everywhere("the new rule counts", func(doc map[string]any) bool { return doc["remaining"] == 40. },
				`{"user":"zoe","route":"/new","weight":0}`)
			t.Logf("the rule counts everywhere %v after the heal", time.Since(healed).Round(10*time.Millisecond))
		}
	})
}

// A region is taken off the lists under load, and added again.
func TestGlobeLong_ARegionIsRemovedAndAdded(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	rolling := func(names ...string) {
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				for i := range 2 {
					if err := g.node(name, i).end(); err != nil {
						t.Errorf("it ended with %v", err)
					}
					g.start(name, i)
				}
			})
		}
		wg.Wait()
	}
	users := usersOf("removed")
	stop := g.load(users)
	pause(500 * time.Millisecond)
	g.leftOut = "asia"
	rolling("eu", "us")
	g.degraded([]string{"eu", "us"}, nil) // though asia is not heard of
	g.degraded([]string{"asia"}, "region")
	g.leftOut = ""
	rolling("eu", "us")
	g.degraded(g.names, nil)
	pause(500 * time.Millisecond)
	a := stop()
	g.raise(true)
	for _, user := range users {
		if n := len(a.admitted[user]); n > 3*120 {
			t.Errorf("%d of 120 admitted for %s", n, user)
		}
	}
	g.raise(false)
	g.under("added", usual, g.lossy)
}

// halfOpen lets nothing through of what reaches a region and comes from it, and closes nothing.
func (g *globe) halfOpen(region string) (heal func()) {
	which := func(l link) bool { return l.from == region || l.to == region }
	g.set(which, func(p *toxiproxy.Proxy) {
		toxic(g.t, p, `{"name":"down","type":"timeout","attributes":{"timeout":0}}`)
		toxic(g.t, p, `{"name":"up","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
	})
	return func() {
		g.set(which, func(p *toxiproxy.Proxy) {
			for _, name := range []string{"down", "up"} {
				if err := p.Toxics.RemoveToxic(g.t.Context(), name); err != nil {
					g.t.Error(err)
				}
			}
		})
	}
}
