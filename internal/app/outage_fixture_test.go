package app

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

// deadline is the store's in these tests: ten times that of production, because
// a test machine may be slow.
const deadline = 250 * time.Millisecond

// onRedis are the settings of a node whose counters are at url.
func onRedis(t *testing.T, url string) config.Serve {
	t.Helper()
	cfg := settings(t)
	cfg.RedisURL.Value, cfg.StoreTimeout = url, deadline
	return cfg
}

// sum reads one series, such as sluice_breaker_state{node="…"}, by a regular
// expression of its name and labels; the values of all that match are added.
func (n *node) sum(series string) float64 {
	n.t.Helper()
	total, form := 0.0, regexp.MustCompile(`^`+series+` (\S+)\n$`)
	name, _, _ := strings.Cut(series, `\{`) // a page has a thousand other lines, which take an expression long
	for line := range strings.Lines(n.text("/metrics")) {
		if !strings.HasPrefix(line, name) {
			continue
		}
		if m := form.FindStringSubmatch(line); m != nil {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				n.t.Error(err)
			}
			total += v
		}
	}
	return total
}

// load is clients who put checks until it is stopped.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	took  []time.Duration
	count map[string]int
	by    []int // answers of each client
}

// press starts clients, who must be stopped; body makes the question of a client,
// and a pause between its requests keeps them from eating the machine.
func press(n *node, clients int, pause time.Duration, body func(client, i int) string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, count: map[string]int{}, by: make([]int, clients)}
	for c := range clients {
		l.wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				start := time.Now()
				doc := n.check(body(c, i))
				l.add(c, doc, time.Since(start))
				<-tick.C
			}
		})
	}
	return l
}

func (l *load) add(client int, doc map[string]any, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	l.count[answerOf(doc)]++
	l.by[client]++
}

// answerOf is an answer in two words, such as "store 200" or "closed 503".
func answerOf(doc map[string]any) string {
	by, ok := doc["degraded"].(string)
	if !ok {
		by = "store"
	}
	return fmt.Sprintf("%s %v", by, doc["status"])
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// seen is how many answers of a kind there were.
func (l *load) seen(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[kind]
}

// forget begins a new count.
func (l *load) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took, l.count = nil, map[string]int{}
	clear(l.by)
}

// everyone reports whether each client has had two answers since forget: the
// second is to a request that began after it.
func (l *load) everyone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Min(l.by) >= 2
}

// report gives the number of answers, the 99th percentile and the longest.
func (l *load) report() (n int, p99, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) == 0 {
		return 0, 0, 0
	}
	d := slices.Sorted(slices.Values(l.took))
	return len(d), d[int(math.Ceil(float64(len(d))*.99))-1], d[len(d)-1]
}

// through puts a toxiproxy in front of a server. Toxics are added by their
// JSON form.
func through(t *testing.T, addr string) (url string, add func(toxic string), heal func()) {
	t.Helper()
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "redis",
		"127.0.0.1:0", addr)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	add = func(toxic string) {
		t.Helper()
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
	return "redis://" + proxy.Listen, add, func() { proxy.Toxics.ResetToxics(context.Background()) }
}

// admin connects to a server beside the node.
func admin(t *testing.T, srv *testenv.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: srv.Addr, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// modes creates a rule of each fail mode, on routes of the same names.
func (n *node) modes(limit int) {
	n.t.Helper()
	for _, mode := range []string{"open", "closed", "local"} {
		n.create(fmt.Sprintf(`{"name":%[1]q,"scope":"user","route":"/%[1]s","limit":%[2]d,"window_ms":86400000,"fail_mode":%[1]q}`, mode, limit))
	}
}

// byMode asks for each mode in turn.
func byMode(client, i int) string {
	return fmt.Sprintf(`{"user":"u%d","route":"/%s"}`, client, []string{"open", "closed", "local"}[i%3])
}
