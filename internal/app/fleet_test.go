package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/rules"
)

// sharedSettings are the settings of nodes that share a Postgres and a Redis.
func sharedSettings(t testing.TB) config.Serve {
	t.Helper()
	cfg := settings(t)
	cfg.DatabaseURL.Value = withSchema(t)
	cfg.RedisURL.Value = testenv.SharedRedis(t).URL()
	cfg.KeyPrefix = fmt.Sprintf("t%d:", time.Now().UnixNano())
	return cfg
}

func TestFleet_NodesStartAtOnceOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	cfg.DatabaseURL.Value = testenv.Postgres(t)
	nodes := make([]*node, 4)
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() { nodes[i], errs[i] = tryStart(t, cfg) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("node %d: %v\n%s", i, err, nodes[i].log)
		}
		if status, _ := nodes[i].send("GET", "/readyz", ""); status != http.StatusOK {
			t.Errorf("node %d is not ready: %d", i, status)
		}
	}
}

func TestFleet_EditIsInForceOnTheOtherNodeByNotification(t *testing.T) {
	t.Parallel()
	p := standingPair(t, "on") // whose polls are too slow to be what is seen here
	a, b := p.nodes[0], p.nodes[1]
	const one, look = `{"user":"u","route":"/edited"}`, `{"user":"u","route":"/edited","weight":0}`
	rule := a.create(`{"name":"edited","scope":"user","route":"/edited","limit":3,"window_ms":86400000}`)
	b.has(1, look)
	for range 2 {
		a.check(one)
	}
	path := fmt.Sprintf("/ratelimit/rules/%v", rule["id"])
	if status, doc := a.send("PATCH", path, `{"limit":2}`); status != http.StatusOK {
		t.Fatalf("edit answered %d %v", status, doc)
	}
	eventually(t, "the lower limit is in force on b, with what was spent kept", func() bool {
		doc := b.check(look)
		return doc["limit"] == float64(2) && doc["remaining"] == float64(0)
	})
	if b.allowed(one) {
		t.Error("b allowed a third request under a limit of 2")
	}
	if status, _ := b.send("DELETE", path, ""); status != http.StatusNoContent {
		t.Fatalf("delete answered %d", status)
	}
	eventually(t, "the deletion is in force on a", func() bool { return a.allowed(one) })
}

func TestFleet_EditIsInForceOnTheOtherNodeByPoll(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.RedisURL.Value = testenv.SharedRedis(t).URL()
	n := start(t, cfg)
	// Another process writes the same SQLite file; nobody notifies anybody.
	err := withDatabase(t.Context(), cfg.Storage, func(ctx context.Context, db *database.DB) error {
		_, err := db.CreateRule(ctx, rules.Actor{Kind: "system", Name: "test"}, goodRule(0, "r"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rule is in force", func() bool {
		return len(n.check(`{"user":"probe","weight":0}`)["limits"].([]any)) == 1
	})
}

// has waits until a node applies so many limits to a check.
func (n *node) has(limits int, check string) {
	n.t.Helper()
	eventually(n.t, "the rules are in force", func() bool {
		list, _ := n.check(check)["limits"].([]any)
		return len(list) == limits
	})
}

// storm has every node put the same requests at once and returns how many were
// allowed.
func storm(nodes []*node, workers, each int, body func(worker, i int) string) int64 {
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for _, n := range nodes {
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					if n.allowed(body(w, i)) {
						allowed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return allowed.Load()
}

func TestFleet_StormAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	nodes := standingPair(t, "on").nodes[:]
	for _, algorithm := range []string{"fixed_window", "sliding_window_log", "sliding_window_counter",
		"sliding_window_buckets", "token_bucket", "gcra", "leaky_bucket", "leaky_queue"} {
		t.Run(algorithm, func(t *testing.T) {
			// A year: long enough that nothing drains during the test. Closed, because
			// a machine so busy that a dial takes too long must not admit more.
			body := fmt.Sprintf(`{"key":"storm %[1]s","limit":100,"window_ms":31536000000,"algorithm":%[1]q,"fail_mode":"closed"}`, algorithm)
			if got := storm(nodes, 8, 20, func(int, int) string { return body }); got != 100 {
				t.Errorf("%d of 320 admitted, want exactly 100", got)
			}
		})
	}
}

func TestFleet_WideLimitIsChargedOnlyWhatPassed(t *testing.T) {
	t.Parallel()
	nodes := standingPair(t, "on").nodes[:]
	const each = `"route":"/wide","window_ms":86400000,"fail_mode":"closed"`
	nodes[0].create(`{"name":"narrow","scope":"user","limit":7,` + each + `}`)
	nodes[0].create(`{"name":"wide","scope":"global","limit":1000,` + each + `}`)
	nodes[1].has(2, `{"user":"probe","route":"/wide","weight":0}`)
	// 8 users, each asked for 30 times through both nodes together.
	got := storm(nodes, 8, 15, func(worker, _ int) string {
		return fmt.Sprintf(`{"user":"u%d","route":"/wide"}`, worker)
	})
	if got != 8*7 {
		t.Errorf("%d admitted, want %d", got, 8*7)
	}
	doc := nodes[1].check(`{"user":"fresh","route":"/wide","weight":0}`)
	for _, l := range doc["limits"].([]any) {
		limit := l.(map[string]any)
		if limit["rule"] == "wide" && limit["remaining"] != float64(1000-8*7) {
			t.Errorf("wide has %v left, want %d: it was charged for what did not pass", limit["remaining"], 1000-8*7)
		}
	}
}

func TestFleet_RepeatedRequestIDIsChargedOnce(t *testing.T) {
	t.Parallel()
	nodes := standingPair(t, "on").nodes[:]
	body := `{"key":"repeated","limit":10,"window_ms":86400000,"request_id":"repeated-1"}`
	if got := storm(nodes, 4, 5, func(int, int) string { return body }); got != 40 {
		t.Errorf("%d of 40 repeats got the stored answer", got)
	}
	left := nodes[0].check(`{"key":"repeated","limit":10,"window_ms":86400000,"weight":0}`)["remaining"]
	if left != float64(9) {
		t.Errorf("remaining %v, want 9", left)
	}
}

func TestFleet_RedisClusterAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.RedisURL.Value = "redis://" + strings.Join(testenv.Cluster(t).Addrs(), ",")
	nodes := []*node{start(t, cfg)}
	other := settings(t)
	other.RedisURL.Value = cfg.RedisURL.Value
	nodes = append(nodes, start(t, other))
	// Several keys, so that several shards decide.
	got := storm(nodes, 6, 10, func(worker, _ int) string {
		return fmt.Sprintf(`{"key":"k%d","limit":7,"window_ms":31536000000,"fail_mode":"closed"}`, worker)
	})
	if got != 6*7 {
		t.Errorf("%d admitted, want %d", got, 6*7)
	}
}
