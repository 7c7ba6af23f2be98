package gateways_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// nodeKilled kills one of two nodes. The other one answers every question, so that none passes undecided.
func (e *example) nodeKilled(t *testing.T, p *product) {
	nodes := []*node{p.serve(t, freeAddr(t)), p.serve(t, freeAddr(t))}
	a := startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{nodes[0].addr, nodes[1].addr}, app: a.addr})
	g.decides(t, "both nodes", 20, "")
	nodes[0].Kill()
	g.decides(t, "one node of two", 100, "")
	if seen := a.take(); len(seen) != 120 {
		t.Errorf("the application got %d requests, want 120", len(seen))
	}
}

// redisAway freezes Redis, and kills it. Sluice's fail mode decides, and the client notices nothing.
func (e *example) redisAway(t *testing.T, p *product) {
	srv := testenv.Redis(t)
	n, a := p.serve(t, freeAddr(t), "REDIS_URL="+srv.URL(), "SLUICE_STORE_TIMEOUT=100ms"), startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr})
	wait(t, "Redis decides", func() bool {
		return g.send(http.MethodGet, "/", http.NoBody, "X-Api-Key", "first").header.Get("X-RateLimit-Mode") == ""
	})
	srv.Pause()
	g.decides(t, "Redis frozen", 100, "open")
	srv.Kill()
	g.decides(t, "Redis killed", 100, "open")
}

// decides sends requests of many keys. Each one must pass and have been decided by Sluice, by its fail mode if there is
// one.
func (g *gateway) decides(t *testing.T, when string, requests int, mode string) {
	t.Helper()
	for i := range requests {
		want := fmt.Sprintf("POST /files/%d hello", i)
		got := g.send(http.MethodPost, fmt.Sprintf("/files/%d", i), strings.NewReader("hello"), "X-Api-Key",
			fmt.Sprintf("%s %d", when, i))
		if got.status != http.StatusOK || got.body != want {
			t.Errorf("%s: request %d: the client got %d %s", when, i, got.status, got.body)
		}
		undecided := got.header.Get("RateLimit") == "" && mode == ""
		if undecided || got.header.Get("X-RateLimit-Mode") != mode {
			t.Errorf("%s: request %d was not decided: %v", when, i, got.header)
		}
	}
}
