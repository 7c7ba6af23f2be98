package playbook

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

const migrating = "../../docs/migrating.md"

// migratingPages returns the pages of the programs that people come from.
func migratingPages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/migrating/*.md")
	if err != nil || len(pages) < 16 {
		t.Fatalf("pages of migrating: %v, %v", pages, err)
	}
	return pages
}

func TestMigrating_ThePagesAreTrue(t *testing.T) {
	for _, page := range migratingPages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) { Page(t, page) })
	}
}

func TestMigrating_ThePagesAreTrueOnRedis(t *testing.T) {
	for _, page := range migratingPages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) { PageOnRedis(t, page) })
	}
}

// The index names every page, each page says what is different, and every link leads somewhere.
func TestMigrating_TheIndexIsComplete(t *testing.T) {
	listed := links(t, migrating)
	for _, page := range migratingPages(t) {
		links(t, page)
		if !listed[page+"#"] {
			t.Errorf("migrating.md does not list %s", page)
		}
		text := read(t, page)
		if !strings.Contains(text, "## What is different") && !strings.Contains(text, "envoy-import.md") {
			t.Errorf("%s does not say what is different", page)
		}
	}
}

// A real nginx admits at once as many requests as the rule that the page makes of its setting. The
// rate is one request per minute, so that none is added while the test runs.
func TestMigrating_NginxAdmitsTheSame(t *testing.T) {
	const sent = 9
	for _, c := range []struct {
		nginx string
		burst int
	}{{"", 1}, {"burst=4 nodelay", 5}} {
		t.Run(c.nginx, func(t *testing.T) {
			url := startNginx(t, "1r/m", c.nginx, "")
			there := 0
			for range sent {
				if status := get(t, url); status == http.StatusOK {
					there++
				} else if status != http.StatusServiceUnavailable {
					t.Fatalf("nginx answered %d", status)
				}
			}
			w := Serve(t)
			rule := fmt.Sprintf("{name: a, scope: ip, algorithm: gcra, limit: 1, window_ms: 60000, burst: %d}", c.burst)
			if err := w.PutInForce([]byte("rules:\n  - " + rule + "\n")); err != nil {
				t.Fatal(err)
			}
			const check = `POST /ratelimit/check {"ip": "203.0.113.7"}` + "\n-> 200 {\"allowed\": %t}\n"
			if err := w.Play(fmt.Sprintf("%dx "+check+"%dx "+check, there, true, sent-there, false)); err != nil {
				t.Errorf("nginx admitted %d of %d: %v", there, sent, err)
			}
		})
	}
}

// startNginx serves a file behind limit_req and returns its URL. more is of the main configuration.
func startNginx(t *testing.T, rate, options, more string) string {
	t.Helper()
	dir, addr := t.TempDir(), testenv.FreeAddr(t)
	own := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	conf := fmt.Sprintf(`%s
events {}
http {
	access_log off;
	%s
	limit_req_zone $binary_remote_addr zone=perip:1m rate=%s;
	server { listen %s; root %s; location / { limit_req zone=perip %s; } }
}
`, more, own, rate, addr, dir, options)
	path := filepath.Join(dir, "nginx.conf")
	for name, text := range map[string]string{path: conf, filepath.Join(dir, "page"): "served\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Start(t, &testenv.Program{Path: testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx"), Addr: addr,
		Args: []string{"-p", dir, "-c", path, "-e", "stderr", "-g",
			"daemon off; master_process off; pid " + filepath.Join(dir, "pid") + ";"}})
	return "http://" + addr + "/page"
}

func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}
