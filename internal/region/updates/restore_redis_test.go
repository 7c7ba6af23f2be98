package updates

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/region"
	"sluice/internal/testenv"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules/match"
)

// server is a region of real nodes with a Redis of its own.
type server struct {
	redis *testenv.RedisServer
	nodes []*node
}

// node is one node of it.
type node struct {
	*Exchange
	store *redisstore.Store
	http  *httptest.Server
	down  atomic.Bool
	stop  func()
}

// serve answers other regions as a node does.
func serve(n *node) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := n.Exchange
		if n.down.Load() {
			http.Error(w, "the node has stopped", http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		var answer []byte
		if r.Header.Get("Content-Type") == RecallType && err == nil {
			answer, err = x.Recall(r.Context(), body)
		} else if err == nil {
			var a *Answer
			if a, err = x.Receive(r.Context(), body); err == nil {
				answer, err = json.Marshal(a)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(answer)
	}
}

// servers starts regions with so many nodes each, every one with the rules of setOf.
func servers(t *testing.T, each int, names ...string) map[string]*server {
	t.Helper()
	all := map[string]*server{}
	for _, name := range names {
		s := &server{redis: testenv.Redis(t)}
		for range each {
			n := &node{}
			n.http = httptest.NewServer(serve(n))
			t.Cleanup(n.http.Close)
			s.nodes = append(s.nodes, n)
		}
		all[name] = s
	}
	for _, name := range names {
		board := &board{until: map[string]time.Time{}, what: map[string]string{}, accepted: map[string]time.Time{}}
		for _, n := range all[name].nodes {
			client, err := redisstore.NewClient(all[name].redis.URL(), redisstore.ClientOptions{DialTimeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			n.store, err = redisstore.New(redisstore.Options{Client: client, Prefix: "sl:",
				Regions: limiter.Regions{Count: int64(len(names)), Restores: true}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.store.Close() })
			sets := &match.Current{}
			sets.Store(setOf(t, 7, "r"))
			log := slog.New(slog.NewTextHandler(t.Output(), nil))
			opt := Options{Self: name, Interval: 50 * time.Millisecond, Prefix: "sl:", Token: func() string { return "" },
				Store: n.store, Apply: n.store, Arrivals: board, Sets: sets, Client: &http.Client{}, Now: time.Now, Log: log,
				Trouble: trouble.New(log, time.Now, nil)}
			t.Cleanup(opt.Client.CloseIdleConnections)
			for _, to := range names {
				if to == name {
					continue
				}
				p := region.Peer{Name: to}
				for _, other := range all[to].nodes {
					p.Addresses = append(p.Addresses, other.http.URL)
				}
				opt.Peers = append(opt.Peers, p)
			}
			if n.Exchange, err = New(opt); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range all {
		for _, n := range s.nodes {
			n.run(t)
		}
	}
	return all
}

// run runs a node until its stop, or the end of the test.
func (n *node) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	n.down.Store(false)
	n.stop = func() {
		n.down.Store(true)
		cancel()
		running.Wait()
	}
	t.Cleanup(n.stop)
}

// loses empties the Redis of a region.
func (s *server) loses(t *testing.T) {
	t.Helper()
	if _, err := s.redis.Command(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request for units of a bucket under a limit of 100 an hour, and returns what is left and whether it was
// allowed.
func (s *server) ask(t *testing.T, op limiter.Op, key limiter.Key, units int64) (left int64, allowed bool) {
	t.Helper()
	var res limiter.Result
	req := limiter.Request{Op: op, Asks: []limiter.Ask{{Key: key, Spans: true, Weight: units,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_600_000}}}}
	if err := s.nodes[0].store.Do(t.Context(), &req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Limits[0].Remaining, res.Allowed
}

// becomes waits until so much is left in all regions.
func becomes(t *testing.T, all map[string]*server, key limiter.Key, want int64, when string) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		lefts, same := map[string]int64{}, true
		for name, s := range all {
			lefts[name], _ = s.ask(t, limiter.OpPeek, key, 0)
			same = same && lefts[name] == want
		}
		if same {
			return
		}
		select {
		case <-late.C:
			t.Fatalf("%s: %v are left of %s, want %d", when, lefts, key, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// The Redis of a region is emptied again and again, and once the others have heard of a unit it counts: the region
// itself, the others, and all together admit the limit and no more.
func TestRestore_ARedisThatWasEmptiedHasWhatTheOthersKnow(t *testing.T) {
	for _, c := range []struct {
		nodes int
		names []string
	}{{1, []string{"eu", "us"}}, {2, []string{"eu", "us", "asia"}}} {
		t.Run(fmt.Sprint(len(c.names)), func(t *testing.T) {
			all := servers(t, c.nodes, c.names...)
			us, eu := all["us"], all["eu"]
			bob := limiter.Key("{user:bob}|1|fw")
			us.ask(t, limiter.OpTake, ada, 20)
			eu.ask(t, limiter.OpTake, ada, 10)
			eu.ask(t, limiter.OpTake, bob, 7)
			becomes(t, all, ada, 70, "at first")
			becomes(t, all, bob, 93, "at first")
			for i := range int64(4) {
				us.loses(t)
				us.ask(t, limiter.OpTake, ada, 5) // before anybody has noticed
				becomes(t, all, ada, 70-5*(i+1), fmt.Sprint("after loss ", i+1))
			}
			becomes(t, all, bob, 93, "of a bucket of another region")
			admitted := 50
			for _, s := range []*server{us, eu, us} {
				for range 100 {
					if _, allowed := s.ask(t, limiter.OpTake, ada, 1); allowed {
						admitted++
					}
				}
				becomes(t, all, ada, 0, "once the limit is spent")
				if s == eu {
					us.loses(t)
					becomes(t, all, ada, 0, "after a loss when the limit is spent")
				}
			}
			if admitted != 100 {
				t.Errorf("%d admitted, want 100", admitted)
			}
		})
	}
}

// A peer that is restarted meanwhile, and one that resets the key, are no reason to count anything twice.
func TestRestore_APeerThatRestartsAndOneThatResets(t *testing.T) {
	all := servers(t, 2, "eu", "us")
	us, eu := all["us"], all["eu"]
	us.ask(t, limiter.OpTake, ada, 20)
	eu.ask(t, limiter.OpTake, ada, 10)
	becomes(t, all, ada, 70, "at first")
	for _, n := range eu.nodes {
		n.stop()
	}
	us.loses(t)
	us.ask(t, limiter.OpTake, ada, 5)
	for _, n := range eu.nodes {
		n.run(t)
	}
	becomes(t, all, ada, 65, "after a restart of the other region")
	us.loses(t)
	eu.ask(t, limiter.OpReset, ada, 0)
	becomes(t, all, ada, 100, "after a reset")
	us.ask(t, limiter.OpTake, ada, 3)
	becomes(t, all, ada, 97, "after a take since the reset")
	us.loses(t)
	becomes(t, all, ada, 97, "after a loss since the reset")
}

// A message that arrives again after the restore, and one from before the loss, change nothing.
func TestRestore_LateAndRepeatedMessages(t *testing.T) {
	all := servers(t, 1, "eu", "us")
	us, eu := all["us"], all["eu"]
	us.ask(t, limiter.OpTake, ada, 20)
	becomes(t, all, ada, 80, "at first")
	known, _, err := eu.nodes[0].store.Recall(t.Context(), "us", "")
	if err != nil || len(known) != 1 || len(known[0].Received) != 1 {
		t.Fatalf("eu knows %+v, %v", known, err)
	}
	us.loses(t)
	us.ask(t, limiter.OpTake, ada, 5)
	becomes(t, all, ada, 75, "after the loss")
	late := Encode(&Message{Head: region.Head{From: "us", To: "eu", Prefix: "sl:",
		At: time.Now().UnixMilli(), Set: 7}, Buckets: []Bucket{{Key: ada, Sums: known[0].Received[0].Sums}}})
	for range 2 {
		if a, err := eu.nodes[0].Receive(t.Context(), late[0]); err != nil || a.Repeated != 1 {
			t.Errorf("a message from before the loss: %+v, %v", a, err)
		}
	}
	becomes(t, all, ada, 75, "after a late message")
}
