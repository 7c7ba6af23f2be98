package gateways_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/api"
	"sluice/internal/testenv"
)

// openRoutes are what a node answers without a credential while no token exists.
var openRoutes = []string{"GET /livez", "GET /readyz", "GET /openapi.yaml", "GET /docs", "GET /docs/:name",
	"GET /problems/:name",
	"GET /metrics", // the fixture has it public
	"POST /ratelimit/check", "POST /ratelimit/check/batch", "POST /ratelimit/rls"}

// proxies are proxies on the machine of the node that add no header of their own and make each request look local.
var proxies = map[string]func(t *testing.T, s *setup) *testenv.Program{
	"nginx with a bare proxy_pass": func(t *testing.T, s *setup) *testenv.Program {
		t.Helper()
		paths := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			paths += kind + "_temp_path " + filepath.Join(s.dir, kind) + "; "
		}
		conf := fmt.Sprintf("events {}\n"+
			"http { access_log off; %s\nserver { listen %s; location / { proxy_pass http://%s; } } }\n",
			paths, s.addr, s.nodes[0])
		return &testenv.Program{Path: testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx"),
			Args: []string{"-p", s.dir, "-c", write(t, s.dir, conf), "-e", "stderr", "-g",
				"daemon off; master_process off; pid " + filepath.Join(s.dir, "pid") + ";"}}
	},
	"HAProxy with Host: localhost": func(t *testing.T, s *setup) *testenv.Program {
		t.Helper()
		conf := fmt.Sprintf("defaults\n\tmode http\n\ttimeout connect 20s\n\ttimeout client 20s\n\ttimeout server 20s\n"+
			"frontend clients\n\tbind %s\n\thttp-request set-header Host localhost\n\tdefault_backend node\n"+
			"backend node\n\tserver node %s\n", s.addr, s.nodes[0])
		return &testenv.Program{Path: testenv.Binary(t, "haproxy", "haproxy", "/usr/sbin/haproxy"),
			Args: []string{"-db", "-f", write(t, s.dir, conf)}}
	},
}

func write(t *testing.T, dir, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "proxy.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A proxy in front of a node without tokens opens checks to its clients, and nothing else that has a scope.
func TestProxies_OpenOnlyChecksOfANodeWithoutTokens(t *testing.T) {
	p := &product{bin: testenv.Sluice(t)}
	n := p.serveOn(t, filepath.Join(t.TempDir(), "data"), testenv.FreeAddr(t))
	for name, program := range proxies {
		t.Run(name, func(t *testing.T) {
			s := &setup{product: p, dir: t.TempDir(), addr: testenv.FreeAddr(t), nodes: []string{n.addr}}
			g := s.start(t, program(t, s))
			for _, r := range api.Table() {
				path := strings.NewReplacer(":id", "1", ":oid", "1", ":name", "x").Replace(r.Path)
				got := g.send(r.Method, path, http.NoBody)
				open := slices.Contains(openRoutes, r.Method+" "+r.Path)
				// A route that this node lacks is not found.
				if refused := got.status == http.StatusUnauthorized; refused == open || got.status == http.StatusForbidden {
					if open || got.status != http.StatusNotFound {
						t.Errorf("%s %s: status %d, want open %v", r.Method, path, got.status, open)
					}
				}
			}
			got := g.send(http.MethodPost, "/ratelimit/check", strings.NewReader(`{"key":"k","limit":9,"window_ms":60000}`),
				"Content-Type", "application/json")
			if got.status != http.StatusOK {
				t.Errorf("a check is refused, so the proxy does not look local: %d %s", got.status, got.body)
			}
		})
	}
}
