package gateways_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// rollingRestart restarts two nodes, one after the other, under requests through nginx. Fail-open
// would hide a lost question, so it is taken out of the example.
func rollingRestart(t *testing.T, p *product) {
	addrs := []string{freeAddr(t), freeAddr(t)}
	nodes := []*node{p.serve(t, addrs[0]), p.serve(t, addrs[1])}
	a := startApp(t)
	g := startNginx("nginx.conf")(t, &setup{product: p, nodes: addrs, app: a.addr, replaced: map[string]string{
		"\t\t\terror_page 500 502 503 504 = @unavailable;\n": "",
		"\t\t\tlimit_req zone=edge burst=200 nodelay;\n":     "",
	}})
	g.rolls(t, nodes, `sluice_gateway_questions_total{face="nginx",result="allowed"}`,
		func(i int) *node { return p.serve(t, addrs[i]) })
	t.Logf("%d requests reached the application", len(a.take()))
	if log := g.Log(); strings.Contains(log, "unexpected status") {
		t.Errorf("nginx logged:\n%s", log)
	}
}

// rolls restarts nodes, one after the other, under requests. Each one must pass. The series counts the questions of a
// node.
func (g *gateway) rolls(t *testing.T, nodes []*node, series string, again func(i int) *node) {
	t.Helper()
	const workers, atLeast = 4, 2000
	var sent, failed atomic.Int64
	half, stop := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Each key has five units.
				got := g.send(http.MethodGet, "/a", http.NoBody, "X-Api-Key", fmt.Sprintf("w%d-%d", w, i/5))
				if got.status != http.StatusOK && failed.Add(1) < 5 {
					t.Logf("the client got %d %s", got.status, got.body)
				}
				if sent.Add(1) == atLeast/2 {
					once.Do(func() { close(half) })
				}
			}
		})
	}
	<-half
	for i, n := range nodes {
		n.Terminate()
		nodes[i] = again(i)
		wait(t, "the new node is asked", func() bool { return nodes[i].asked(t, series) })
	}
	before := sent.Load()
	wait(t, "requests after both restarts", func() bool { return sent.Load() >= max(atLeast, before+200) })
	close(stop)
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
	t.Logf("%d requests, %d failed", sent.Load(), failed.Load())
}
