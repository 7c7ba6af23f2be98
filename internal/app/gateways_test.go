package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/client"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/rules"
	"sluice/rules/profile"
)

// withProfile stores the profile shop, which accepts gateways on this machine, before a node starts.
func withProfile(t testing.TB, cfg config.Serve, edit ...func(*profile.Profile)) {
	t.Helper()
	p := profile.New()
	p.Name = "shop"
	p.Facts.User = []profile.Source{{Header: "X-User"}, {Cookie: "uid"}}
	p.Proof.Networks = []string{"127.0.0.1"}
	for _, e := range edit {
		e(&p)
	}
	p.Normalize()
	err := withDatabase(t.Context(), cfg.Storage, func(ctx context.Context, db *database.DB) error {
		_, err := db.Profiles().Create(ctx, rules.Actor{Kind: "system", Name: "test"}, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// question is what one face is asked about a client's GET of a path.
func (n *node) question(face, path, user string, header ...string) *http.Request {
	n.t.Helper()
	method, url := http.MethodGet, n.url+"/ratelimit/"+face+"/shop"
	if face == "ext_authz" {
		url += path
	}
	req, err := http.NewRequestWithContext(n.t.Context(), method, url, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	if face != "ext_authz" {
		req.Header.Set("X-Forwarded-Method", method)
		req.Header.Set("X-Forwarded-Uri", path)
		req.Header.Set("X-Forwarded-Host", "shop.example")
	}
	req.Header.Set("X-Forwarded-For", "203.0.113.7")
	req.Header.Set("X-User", user)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// put sends a question and returns the answer without its body.
func (n *node) put(req *http.Request) (status int, header http.Header) {
	n.t.Helper()
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		n.t.Error(err)
	}
	return res.StatusCode, res.Header
}

func (n *node) ask(face, path, user string, header ...string) (status int, answer http.Header) {
	n.t.Helper()
	return n.put(n.question(face, path, user, header...))
}

func TestGateways_StormOverEveryFaceAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	nodes := standingPair(t, "on").nodes
	const limit, path = 100, "/gateways"
	nodes[0].create(fmt.Sprintf(`{"name":"gateways","scope":"user","route":%q,"limit":%d,"window_ms":31536000000,
		"fail_mode":"closed"}`, path, limit))
	nodes[1].has(1, `{"user":"probe","route":"/gateways","weight":0}`)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for _, n := range nodes {
		c, err := client.New(n.url, client.Options{Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		ways := map[string]func() bool{
			"JSON": func() bool { return n.allowed(`{"user":"u","route":"/gateways"}`) },
			"Go": func() bool {
				a, err := c.Check(t.Context(), client.Check{User: "u", Route: path})
				if err != nil {
					t.Error(err)
					return false
				}
				return a.Allowed
			},
		}
		for face, denied := range map[string]int{"forward": http.StatusTooManyRequests,
			"nginx": http.StatusForbidden, "ext_authz": http.StatusTooManyRequests} {
			ways[face] = func() bool {
				status, header := n.ask(face, path, "u")
				if status != http.StatusOK && status != denied || header.Get("X-RateLimit-Mode") != "" {
					t.Errorf("%s answered %d %v", face, status, header)
				}
				return status == http.StatusOK
			}
		}
		for _, way := range ways {
			for range 3 {
				wg.Go(func() {
					for range 10 {
						if way() {
							admitted.Add(1)
						}
					}
				})
			}
		}
	}
	wg.Wait()
	if got := admitted.Load(); got != limit {
		t.Errorf("%d of 300 admitted, want exactly %d", got, limit)
	}
}

func TestGateways_FrozenRedisDelaysNoAnswer(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	cfg := onRedis(t, srv.URL())
	withProfile(t, cfg)
	n := start(t, cfg)
	n.modes(1_000_000)
	faces := []string{"forward", "nginx", "ext_authz"}
	modes := []string{"open", "closed", "local"}
	for _, face := range faces {
		if status, header := n.ask(face, "/closed", "u"); status != http.StatusOK || header.Get("X-RateLimit-Mode") != "" {
			t.Fatalf("%s with Redis: %d %v", face, status, header)
		}
	}
	srv.Pause()
	defer srv.Resume()
	// Redis stays frozen until the test ends: whoever is answered did not wait for it.
	var wg sync.WaitGroup
	for _, face := range faces {
		for _, mode := range modes {
			want := map[string]int{"open": http.StatusOK, "closed": http.StatusServiceUnavailable, "local": http.StatusOK}[mode]
			forClient := ""
			if face == "nginx" && mode == "closed" {
				want, forClient = http.StatusForbidden, "503"
			}
			for client := range 4 {
				wg.Go(func() {
					for range 10 {
						status, header := n.ask(face, "/"+mode, fmt.Sprintf("u%d", client))
						if status != want || header.Get("X-RateLimit-Mode") != mode ||
							header.Get("X-RateLimit-Status") != forClient {
							t.Errorf("%s, %s: %d %v", face, mode, status, header)
						}
					}
				})
			}
		}
	}
	wg.Wait()
	if got := n.sum(`sluice_gateway_questions_total\{face="nginx",result="unavailable"\}`); got != 40 {
		t.Errorf("%v questions of nginx are counted as unavailable, want 40", got)
	}
}

func TestGateways_OversizedAndOddQuestionsAreTheGatewaysMistake(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	withProfile(t, cfg)
	n := start(t, cfg)
	n.create(`{"name":"r","scope":"user","limit":1000,"window_ms":86400000}`)
	if !strings.Contains(n.text("/metrics"), `sluice_gateway_questions_total{face="ext_authz",result="no_proof"} 0`) {
		t.Error("a series of gateways' questions is not served before the first question")
	}
	for name, req := range map[string]*http.Request{
		"64 KiB of cookies":  n.question("forward", "/", "", "Cookie", strings.Repeat("a=b; ", 13_000)+"uid=1"),
		"a header of 40 KiB": n.question("nginx", "/", strings.Repeat("u", 40<<10)),
		"a path of 40 KiB":   n.question("ext_authz", "/"+strings.Repeat("u", 40<<10), "u"),
	} {
		if status, _ := n.put(req); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: answered %d", name, status)
		}
	}
	for name, req := range map[string]*http.Request{
		"8 KiB of cookies": n.question("nginx", "/", "", "Cookie", strings.Repeat("a=b; ", 1600)+"uid=1"),
		"a path of 8 KiB":  n.question("ext_authz", "/"+strings.Repeat("u", 8<<10), "u"),
	} {
		if status, _ := n.put(req); status != http.StatusOK {
			t.Errorf("%s: answered %d", name, status)
		}
	}
	for _, method := range []string{"HEAD", "CONNECT", "TRACE", "PURGE", "x"} {
		for _, face := range []string{"forward", "nginx", "ext_authz"} {
			req := n.question(face, "/", "u")
			req.Method = method
			if status, _ := n.put(req); status != http.StatusOK {
				t.Errorf("%s %s: answered %d", method, face, status)
			}
		}
	}
}
