package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// spending is a check that Redis alone may decide and that never runs out.
const spending = `{"key":"load","limit":1000000,"window_ms":31536000000,"algorithm":"fixed_window","fail_mode":"closed"`

// fleetEnv are the settings of processes that share a Postgres and a Redis.
func fleetEnv(t *testing.T) []string {
	t.Helper()
	return []string{
		"DATABASE_URL=" + testenv.Postgres(t), "REDIS_URL=" + testenv.SharedRedis(t).URL(),
		fmt.Sprintf("SLUICE_KEY_PREFIX=p%d:", time.Now().UnixNano()),
		// A test machine may be slow; and longer than the balancer takes to notice.
		"SLUICE_STORE_TIMEOUT=5s", "SLUICE_DRAIN_DELAY=500ms",
	}
}

func rollingRestart(t *testing.T, bin string) {
	env := fleetEnv(t)
	b := newBalancer(t, spawn(t, bin, "", env...), spawn(t, bin, "", env...))
	load := b.load(6)
	load.serves(50)
	for i := range b.nodes {
		old := b.nodes[i].Load()
		if err := old.end(); err != nil {
			t.Errorf("asked to end, it ended with %v\n%s", err, old.log)
		}
		b.nodes[i].Store(spawn(t, bin, "", env...))
		load.serves(50)
	}
	load.stop()
	if n := len(load.broken) + int(load.excused.Load()); n != 0 {
		t.Errorf("%d of %d requests failed: %v", n, load.admitted.Load(), load.broken)
	}
	if spent := b.spent(); spent != load.admitted.Load() {
		t.Errorf("Redis holds %d, %d were admitted", spent, load.admitted.Load())
	}
	t.Logf("%d requests over both restarts", load.admitted.Load())
}

func killedNode(t *testing.T, bin string) {
	env := fleetEnv(t)
	const workers = 8
	b := newBalancer(t, spawn(t, bin, "", env...), spawn(t, bin, "", env...))
	load := b.load(workers)
	load.serves(50)
	b.nodes[0].Load().kill()
	load.serves(200)
	load.stop()
	if len(load.broken) != 0 {
		t.Errorf("failed without a reason: %v", load.broken)
	}
	excused := load.excused.Load()
	if excused > workers {
		t.Errorf("%d requests failed, at most %d can have been in flight", excused, workers)
	}
	// Those in flight may have been spent; nothing else may differ.
	if spent := b.spent(); spent < load.admitted.Load() || spent > load.admitted.Load()+excused {
		t.Errorf("Redis holds %d, %d were admitted and %d went unanswered", spent, load.admitted.Load(), excused)
	}
	t.Logf("%d requests answered, %d lost in flight", load.admitted.Load(), excused)
}

// balancer sends each request to one of its nodes in turn, not to one that says
// it is not ready, and never sends a request twice.
type balancer struct {
	t     *testing.T
	nodes []*atomic.Pointer[child]
	turn  atomic.Uint64
}

func newBalancer(t *testing.T, nodes ...*child) *balancer {
	t.Helper()
	b := &balancer{t: t}
	for _, n := range nodes {
		p := &atomic.Pointer[child]{}
		p.Store(n)
		b.nodes = append(b.nodes, p)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range b.nodes {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					n := p.Load()
					status, _, err := requestOnce(context.Background(), n.client, "GET", n.url+"/readyz", "")
					n.ready.Store(err == nil && status == http.StatusOK)
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); wg.Wait() })
	return b
}

func (b *balancer) next() *child {
	first := b.turn.Add(1)
	for i := range uint64(len(b.nodes)) {
		if n := b.nodes[(first+i)%uint64(len(b.nodes))].Load(); n.ready.Load() {
			return n
		}
	}
	return nil
}

// spent is what the counter store says of the load.
func (b *balancer) spent() int64 {
	b.t.Helper()
	var doc struct{ Remaining int64 }
	if err := json.Unmarshal([]byte(b.next().check(spending+`,"weight":0}`)), &doc); err != nil {
		b.t.Fatal(err)
	}
	return 1_000_000 - doc.Remaining
}

// traffic is requests and what became of it.
type traffic struct {
	b                 *balancer
	admitted, excused atomic.Int64
	stopping          chan struct{}
	wg                sync.WaitGroup
	mu                sync.Mutex
	broken            []string // read after stop
}

func (b *balancer) load(workers int) *traffic {
	l := &traffic{b: b, stopping: make(chan struct{})}
	for range workers {
		l.wg.Go(func() {
			for {
				select {
				case <-l.stopping:
					return
				default:
					l.one()
				}
			}
		})
	}
	return l
}

func (l *traffic) one() {
	n := l.b.next()
	if n == nil {
		return // none is ready; the next round looks again
	}
	status, doc, err := requestOnce(context.Background(), n.client, "POST", n.url+"/ratelimit/check", spending+"}")
	switch {
	case err == nil && status == http.StatusOK && strings.HasPrefix(doc, `{"allowed":true`):
		l.admitted.Add(1)
	case errors.Is(err, errNotSent):
		n.ready.Store(false)
	case err != nil && n.killed.Load():
		n.ready.Store(false) // as balancers do with one that cuts a connection
		l.excused.Add(1)
	default:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = append(l.broken, fmt.Sprintf("%d %v %.100s", status, err, doc))
	}
}

// serves waits for that many more answers.
func (l *traffic) serves(more int64) {
	l.b.t.Helper()
	from := l.admitted.Load()
	eventually(l.b.t, "requests are served", func() bool { return l.admitted.Load() >= from+more })
}

func (l *traffic) stop() {
	close(l.stopping)
	l.wg.Wait()
}

// requestOnce makes one request; header pairs follow the body. The client does not repeat it.
func requestOnce(ctx context.Context, client *http.Client, method, url, body string, header ...string) (
	int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			err = errors.Join(errNotSent, err)
		}
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}
