//go:build measure

package gateways_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// Each gateway gets that many requests with and without the question, in alternating blocks over
// one connection.
const (
	measuredBlocks = 40
	measuredBlock  = 100
)

// unlimited takes the coarse limits out of the examples.
var unlimited = map[string]string{
	"\t\t\tlimit_req zone=edge burst=200 nodelay;\n":                           "",
	"\thttp-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000 }\n": "",
}

// TestMeasure measures what the question adds to a request:
//
//	make bench-gateways
func TestMeasure(t *testing.T) {
	p := build(t)
	n, a := p.serve(t, freeAddr(t)), startApp(t)
	fmt.Fprintln(os.Stdout, "| gateway | without: p50, p99 | with: p50, p99 | the question adds: p50, p99 |\n"+
		"|---|---|---|---|")
	for _, g := range []struct {
		name          string
		with, without func(t *testing.T, s *setup) *gateway
		question      map[string]string // what is taken out of the example
	}{
		{"nginx, auth_request", startNginx("nginx.conf"), startNginx("nginx.conf"),
			map[string]string{"\t\t\tauth_request /_sluice;\n": ""}},
		{"nginx, njs", startNginx("nginx-njs.conf"), startNginx("nginx-njs.conf"),
			map[string]string{"js_content sluice.limit;": "proxy_pass http://app;"}},
		{"Caddy", startCaddy, startPlainCaddy, nil},
		{"HAProxy", startHAProxy, startHAProxy, map[string]string{"\thttp-request lua.sluice shop # <- your profile\n": ""}},
	} {
		with, without := copied(unlimited, nil), copied(unlimited, g.question)
		asking := g.with(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr, replaced: with})
		plain := g.without(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr, replaced: without})
		var took [2][]time.Duration
		for block := range measuredBlocks + 2 {
			for i, gw := range []*gateway{plain, asking} {
				times := gw.block(t, block)
				if block >= 2 { // the first ones open connections
					took[i] = append(took[i], times...)
				}
			}
			a.take()
		}
		for i := range took {
			slices.Sort(took[i])
		}
		at := func(i, percent int) time.Duration { return took[i][len(took[i])*percent/100] }
		fmt.Fprintf(os.Stdout, "| %s | %s, %s | %s, %s | %s, %s |\n", g.name, ms(at(0, 50)), ms(at(0, 99)), ms(at(1, 50)),
			ms(at(1, 99)), ms(at(1, 50)-at(0, 50)), ms(at(1, 99)-at(0, 99)))
	}
}

func copied(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

// block sends one block of requests, none of which is denied.
func (g *gateway) block(t *testing.T, block int) []time.Duration {
	t.Helper()
	var out []time.Duration
	for i := range measuredBlock {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/users/17", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", fmt.Sprintf("%s-%d-%d", g.url, block, i))
		began := time.Now()
		res, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		out = append(out, time.Since(began))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the client got %d, %v", res.StatusCode, err)
		}
	}
	return out
}

// startPlainCaddy runs Caddy in front of the application alone.
func startPlainCaddy(t *testing.T, s *setup) *gateway {
	t.Helper()
	s.place(t)
	conf := strings.NewReplacer("ADDR", s.addr, "APP", s.app).Replace(
		"{\n\tadmin off\n}\n\nhttp://ADDR {\n\treverse_proxy APP\n}\n")
	if err := os.WriteFile(filepath.Join(s.dir, "Caddyfile"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.start(t, &testenv.Program{Path: testenv.Binary(t, "caddy", "caddy"),
		Args: []string{"run", "--config", "Caddyfile"}, Env: []string{"XDG_DATA_HOME=" + s.dir, "XDG_CONFIG_HOME=" + s.dir}})
}
