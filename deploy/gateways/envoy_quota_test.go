//go:build envoy

package gateways_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// The rule of the test of rlqs.yaml.
const (
	quotaLimit  = 2000
	quotaWindow = 20 * time.Second
	quotaRule   = `rules:
  - name: quota-key
    descriptor: {domain: shop, entries: [{key: api_key}]}
    algorithm: fixed_window
    limit: 2000
    window_ms: 20000
    hot_keys: leased
    fail_mode: closed
`
	// quotaPace is the time between two requests to one Envoy: two of them ask for four times the limit.
	quotaPace = 5 * time.Millisecond
)

// quotaLoad counts what Envoys let pass, by window. Nothing passes within a second of the end of a window.
type quotaLoad struct {
	mu     sync.Mutex
	passed map[int64]int
	sent   map[int64]int
}

func quotaWindowOf(at time.Time) int64 { return at.UnixMilli() / quotaWindow.Milliseconds() }

// run sends requests to an Envoy until stop is closed.
func (q *quotaLoad) run(t *testing.T, url string, stop <-chan struct{}) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()
	pace := time.NewTicker(quotaPace)
	defer pace.Stop()
	for {
		select {
		case <-stop:
			return
		case <-pace.C:
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/users/17", http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("X-Api-Key", "k1")
		res, err := client.Do(req)
		if err != nil {
			continue // this Envoy was killed
		}
		res.Body.Close()
		at := quotaWindowOf(time.Now())
		q.mu.Lock()
		if q.sent[at]++; res.StatusCode == http.StatusOK {
			q.passed[at]++
		}
		q.mu.Unlock()
	}
}

// ends waits for the end of a window, and returns what passed in it.
func (q *quotaLoad) ends(t *testing.T, window int64) int {
	t.Helper()
	wait := time.NewTimer(time.Until(time.UnixMilli((window + 1) * quotaWindow.Milliseconds())))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-t.Context().Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.Logf("window %d: %d of %d passed, of %d requests", window, q.passed[window], quotaLimit, q.sent[window])
	return q.passed[window]
}

// envoyQuotas: two Envoys of two workers share a limit on two nodes. From the second window on they use at least 99 %
// of it, also from the window after an Envoy or a node was killed, and they never exceed it.
func envoyQuotas(t *testing.T, p *product, bin string) {
	redis := testenv.Redis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(quotaRule), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*node
	var ports [2]string
	for i := range ports {
		grpc := testenv.FreeAddr(t)
		n := p.serve(t, testenv.FreeAddr(t), "SLUICE_GRPC_LISTEN="+grpc, "REDIS_URL="+redis.URL())
		p.run(t, "rules", "apply", "--file", file, "--server", "http://"+n.addr)
		nodes, ports[i] = append(nodes, n), port(grpc)
	}
	a := startApp(t)
	start := func() *gateway {
		return runEnvoy(t, p, bin, "envoy/rlqs.yaml", twoNodes(ports, map[string]string{
			"port_value: 9000": port(a.addr),
		}), "--concurrency", "2")
	}
	q := &quotaLoad{passed: map[int64]int{}, sent: map[int64]int{}}
	var running sync.WaitGroup
	load := func(g *gateway) (stop func()) {
		done := make(chan struct{})
		running.Go(func() { q.run(t, g.url, done) })
		return sync.OnceFunc(func() { close(done) })
	}
	defer running.Wait()
	first, second := start(), start()
	stopFirst := load(first)
	defer stopFirst()
	defer load(second)()
	window := quotaWindowOf(time.Now()) + 1
	q.ends(t, window-1)
	full := func(what string) {
		t.Helper()
		if got := q.ends(t, window); got > quotaLimit || got*100 < quotaLimit*99 {
			t.Errorf("%s: %d of %d units passed", what, got, quotaLimit)
		}
		window++
	}
	killed := func(what string) {
		t.Helper()
		if got := q.ends(t, window); got > quotaLimit {
			t.Errorf("%s: %d of %d units passed", what, got, quotaLimit)
		}
		window++
	}
	full("the second window")
	full("the third window")
	first.Kill()
	stopFirst()
	defer load(start())()
	killed("an Envoy was killed")
	full("the window after an Envoy was killed")
	nodes[0].Kill()
	killed("a node was killed")
	full("the window after a node was killed")
	if text := second.Log(); strings.Contains(text, "rejected") {
		t.Errorf("Envoy refused something: %s", text)
	}
}
