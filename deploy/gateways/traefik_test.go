//go:build traefik

package gateways_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestTraefik runs the example through the program that TRAEFIK names:
//
//	make test-traefik TRAEFIK=/usr/local/bin/traefik
func TestTraefik(t *testing.T) {
	bin := os.Getenv("TRAEFIK")
	if bin == "" {
		t.Fatal("say which program, as in make test-traefik TRAEFIK=/usr/local/bin/traefik")
	}
	p := build(t)
	start := func(t *testing.T, s *setup) *gateway {
		t.Helper()
		s.place(t, "traefik/traefik.yaml", "traefik/dynamic.yaml")
		g := s.start(t, &testenv.Program{Path: bin, Args: []string{"--configFile=traefik.yaml"}})
		wait(t, "Traefik has read its routers", func() bool {
			return g.send(http.MethodGet, "/ready", http.NoBody).status != http.StatusNotFound
		})
		return g
	}
	t.Run("asks what is recorded", func(t *testing.T) {
		l, a := startListener(t), startApp(t)
		g := start(t, &setup{product: p, nodes: []string{l.addr}, app: a.addr})
		for len(l.questions) > 0 { // of the wait above
			<-l.questions
		}
		got := g.send(http.MethodPost, "/users/17?x=1", strings.NewReader("hello"), "X-Api-Key", "k1", "Cookie", "a=b",
			"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Uri", "/other", "X-Forwarded-Method", "OPTIONS")
		if got.status != http.StatusOK || got.body != "POST /users/17?x=1 hello" {
			t.Fatalf("the client got %d %s", got.status, got.body)
		}
		q := <-l.questions
		recorded, names := wire(t, "testdata/traefik.http", p.token), map[string]bool{}
		for line := range strings.Lines(recorded) {
			if name, _, ok := strings.Cut(line, ": "); ok && name != "Host" {
				names[name] = true
			}
		}
		if q.method != http.MethodGet || q.uri != "/ratelimit/forward/shop-network" || q.body != "" ||
			q.header.Get("X-Forwarded-Method") != "POST" || q.header.Get("X-Forwarded-Uri") != "/users/17?x=1" ||
			q.header.Get("X-Forwarded-For") != "127.0.0.1" || q.header.Get("X-Api-Key") != "k1" {
			t.Errorf("the question is %+v", q)
		}
		for name := range q.header {
			if !names[name] {
				t.Errorf("the question has %s, which is not recorded", name)
			}
			delete(names, name)
		}
		for name := range names {
			t.Errorf("the question has no %s, which is recorded", name)
		}
		for _, denied := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			got := g.send(http.MethodGet, "/a", http.NoBody, "X-Api-Key", fmt.Sprint(denied))
			if got.status != denied || got.header.Get("Retry-After") != "60" || got.body != `{"title":"from the listener"}` {
				t.Errorf("a denial: the client got %d %v %s", got.status, got.header, got.body)
			}
			wantFigures(t, "a denied request", got, figures)
		}
	})
	t.Run("limits, and fails without Sluice", func(t *testing.T) {
		n, a := p.serve(t, freeAddr(t)), startApp(t)
		g := start(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr})
		for range 5 {
			if got := g.send(http.MethodGet, "/users/17", http.NoBody, "X-Api-Key", "k1"); got.status != http.StatusOK {
				t.Errorf("the client got %d %s", got.status, got.body)
			}
		}
		wantDenial(t, g.send(http.MethodGet, "/users/17", http.NoBody, "X-Api-Key", "k1"))
		n.Kill() // Traefik has no fail-open: the README says so
		if got := g.send(http.MethodGet, "/users/17", http.NoBody, "X-Api-Key", "k2"); got.status != 500 {
			t.Errorf("without Sluice the client got %d", got.status)
		}
	})
}
