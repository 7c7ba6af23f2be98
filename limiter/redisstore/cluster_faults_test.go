package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// patience is how long a test waits for a cluster to heal itself.
const patience = 30 * time.Second

// shop is a fixed window that neither ends nor fills up in a test.
var shop = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1_000_000, Window: limiter.MaxWindow,
	Align: limiter.AlignFirstHit}

// direct is a plain client of one node.
func direct(t testing.TB, node *testenv.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: node.Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// slotOf asks a node for the slot of an entity.
func slotOf(t testing.TB, c *redis.Client, name string) int {
	t.Helper()
	slot, err := c.ClusterKeySlot(context.Background(), name).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

// moved are the slots that a test has moved, by the address of the first node of their cluster.
var moved sync.Map

type movedSlot struct {
	cluster string
	slot    int
}

// entityOn returns a fresh entity whose buckets live on node, in a slot that no test has moved.
func entityOn(t testing.TB, cluster *testenv.RedisCluster, node *testenv.RedisServer) string {
	t.Helper()
	c := direct(t, cluster.Nodes[0])
	for {
		name := entity()
		slot := slotOf(t, c, name)
		if _, is := moved.Load(movedSlot{cluster.Nodes[0].Addr, slot}); !is && cluster.PrimaryOf(slot) == node {
			return name
		}
	}
}

// until repeats try every few ms until it returns true, and fails after
// patience.
func until(t testing.TB, what string, try func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	give := time.NewTimer(patience)
	defer give.Stop()
	for !try() {
		select {
		case <-tick.C:
		case <-give.C:
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// takeWithin takes with the deadline of a check.
func takeWithin(s limiter.Store, asks ...limiter.Ask) (limiter.Result, error) {
	return attempt(s, &limiter.Request{Asks: asks})
}

// attempt is any request with that deadline.
func attempt(s limiter.Store, req *limiter.Request) (limiter.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var res limiter.Result
	err := s.Do(ctx, req, &res)
	return res, err
}

func used(t testing.TB, s limiter.Store, a limiter.Ask) int64 {
	t.Helper()
	return a.Limit.Capacity() - do(t, s, limiter.OpPeek, "", a).Limits[0].Remaining
}

func TestCluster_DeadPrimaryStopsItsOwnSlotsOnlyUntilItsReplicaTakesOver(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	cluster := testenv.Cluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	victim := cluster.Nodes[0]
	dead := ask(entityOn(t, cluster, victim), 1, shop)
	alive := ask(entityOn(t, cluster, cluster.Nodes[1]), 1, shop)
	narrow := alive
	narrow.Limit.Count = 1000
	narrow.Key += "n"
	take(t, s, "", dead)
	take(t, s, "", alive)
	replicated(t, victim, "{"+entityOn(t, cluster, victim)+"}mark")
	start := time.Now()
	cluster.AllowFailover()
	victim.Kill()
	var failed, others, missed int64
	until(t, "the replica to take over", func() bool {
		others++
		if _, err := takeWithin(s, alive); err != nil {
			missed++ // a busy machine may be late for once; a dead node would be each time
			t.Logf("a limit on another node: %v", err)
		}
		// Narrow first, so it is taken and given back.
		if _, err := takeWithin(s, narrow, dead); err == nil {
			t.Log("both limits were taken")
		}
		if _, err := takeWithin(s, dead); err != nil {
			var se *limiter.StoreError
			if !errors.As(err, &se) {
				t.Fatalf("got %v", err)
			}
			failed++
			return false
		}
		return true
	})
	t.Logf("served again after %v; meanwhile %d requests failed and %d on other nodes did not", time.Since(start), failed,
		others-missed)
	if missed*5 > others {
		t.Errorf("%d of %d requests on other nodes failed", missed, others)
	}
	if failed == 0 {
		t.Error("no request noticed that its server had died")
	}
	if got := used(t, s, alive); got > others+1 || got < others+1-missed {
		t.Errorf("the other node holds %d, admitted %d and perhaps %d", got, others+1-missed, missed)
	}
	st := s.Stats()
	if got := used(t, s, narrow); got > st.GiveBacksLost+1 {
		t.Errorf("%d units are left of requests that were not admitted, at most %d give-backs were lost", got,
			st.GiveBacksLost)
	}
	t.Logf("%+v", st)
}

func TestCluster_StormOverTwoSlotsIsExactAndWideIsChargedForWhatPassed(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	stores := []*redisstore.Store{
		open(t, client(t, cluster.URL()), redisstore.Options{}), open(t, client(t, cluster.URL()), redisstore.Options{}),
	}
	for _, algorithm := range []limiter.Limit{limits(month)[1], limits(month)[4], limits(month)[5], limits(month)[7]} {
		narrow, wide := algorithm, algorithm
		narrow.Count, wide.Count = 15, 90
		narrow.Burst, wide.Burst = 15*min(1, algorithm.Burst), 90*min(1, algorithm.Burst)
		wideAsk := ask(entityOn(t, cluster, cluster.Nodes[2]), 1, wide)
		narrowAsks := make([]limiter.Ask, 8)
		for i := range narrowAsks {
			narrowAsks[i] = ask(entityOn(t, cluster, cluster.Nodes[i%2]), 1, narrow)
		}
		var passed [8]atomic.Int64
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for n := range 25 {
					var res limiter.Result
					req := limiter.Request{ID: fmt.Sprintf("%d/%d", g, n), Asks: []limiter.Ask{wideAsk, narrowAsks[g%8]}}
					if err := stores[g%2].Do(context.Background(), &req, &res); err != nil {
						t.Error(err)
					}
					if res.Allowed {
						passed[g%8].Add(1)
					}
				}
			})
		}
		wg.Wait()
		total := int64(0)
		for i := range passed {
			total += passed[i].Load()
			if got := used(t, stores[0], narrowAsks[i]); got != passed[i].Load() {
				t.Errorf("%s: narrow limit %d holds %d, admitted %d", algorithm.Algorithm, i, got, passed[i].Load())
			}
		}
		if got := used(t, stores[0], wideAsk); got != total || total != 90 {
			t.Errorf("%s: the wide limit of 90 holds %d, admitted %d", algorithm.Algorithm, got, total)
		}
	}
}

func TestCluster_HotSlotMovesUnderLoadAndCountsStayExact(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	stores := []*redisstore.Store{
		open(t, client(t, cluster.URL()), redisstore.Options{}), open(t, client(t, cluster.URL()), redisstore.Options{}),
	}
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	name := entityOn(t, cluster, from)
	asks := make([]limiter.Ask, 24)
	for i := range asks {
		asks[i] = ask(name, i, shop)
	}
	var single, double [24]atomic.Int64
	var refused, rounds atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := g; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				i := n % 24
				if err := stores[g%2].Do(context.Background(), &limiter.Request{Asks: asks[i : i+1]},
					&limiter.Result{}); err != nil {
					t.Errorf("one key: %v", err)
				}
				single[i].Add(1)
				// Two keys of a slot on its way may be in two places: then the
				// request is refused and spends nothing.
				k := (i + 7) % 24
				var se *limiter.StoreError
				err := stores[g%2].Do(context.Background(), &limiter.Request{Asks: []limiter.Ask{asks[i], asks[k]}},
					&limiter.Result{})
				switch {
				case err == nil:
					double[i].Add(1)
					double[k].Add(1)
				case errors.As(err, &se) && se.Cause == limiter.CauseCluster && !se.Unknown:
					refused.Add(1)
				default:
					t.Errorf("two keys: %v", err)
				}
				rounds.Add(1)
			}
		})
	}
	until(t, "load", func() bool { return rounds.Load() > 200 })
	moveSlot(t, cluster, slotOf(t, direct(t, from), name), from, to, func() {
		before := rounds.Load()
		until(t, "load during the move", func() bool { return rounds.Load() > before+20 })
	})
	after := rounds.Load()
	until(t, "load after the move", func() bool { return rounds.Load() > after+200 })
	close(stop)
	wg.Wait()
	for i := range asks {
		if got, want := used(t, stores[0], asks[i]), single[i].Load()+double[i].Load(); got != want {
			t.Errorf("key %d holds %d, admitted %d", i, got, want)
		}
	}
	t.Logf("%d rounds, %d requests of two keys were refused while their keys were in two places", rounds.Load(),
		refused.Load())
}

// A limit and its ban have two keys, and mostly only one is there. Each user of a slot that moves is checked until she
// is banned.
func TestCluster_BansOfASlotThatMovesAreExact(t *testing.T) {
	const users, admitted, denials = 12, 40, 60
	cluster := testenv.SharedCluster(t)
	stores := []*redisstore.Store{
		open(t, client(t, cluster.URL()), redisstore.Options{}), open(t, client(t, cluster.URL()), redisstore.Options{}),
	}
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	name := entityOn(t, cluster, from)
	limit := shop
	limit.Count = admitted
	var passed, unbanned, began [users]atomic.Int64
	var rounds atomic.Int64
	stop := make(chan struct{})
	check := func(s limiter.Store, user, n int) error {
		a := ask(name, user, limit)
		ban := limiter.Ask{Key: limiter.BanKey(a.Key),
			Limit: limiter.BanLimit(denials, limiter.MaxWindow, limiter.MaxWindow, 1, limiter.MaxWindow)}
		call := []limiter.Call{{Request: limiter.Request{Asks: []limiter.Ask{a, ban}}}}
		if n%2 == 0 {
			call[0].Err = s.Do(context.Background(), &call[0].Request, &call[0].Result)
		} else {
			s.DoAll(context.Background(), call)
		}
		switch res := &call[0].Result; {
		case call[0].Err != nil:
			return call[0].Err
		case res.Allowed:
			passed[user].Add(1)
		case res.Limits[1].BanBegan:
			began[user].Add(1)
		case res.Limits[1].Allowed:
			unbanned[user].Add(1)
		}
		rounds.Add(1)
		return nil
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := g; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := check(stores[g%2], n/4%users, n/4/users); err != nil {
					t.Error(err)
				}
			}
		})
	}
	until(t, "load", func() bool { return rounds.Load() > 100 })
	moveSlot(t, cluster, slotOf(t, direct(t, from), name), from, to, func() {
		before := rounds.Load()
		until(t, "load during the move", func() bool { return rounds.Load() > before+200 })
	})
	until(t, "all bans", func() bool {
		for i := range began {
			if began[i].Load() == 0 {
				return false
			}
		}
		return true
	})
	close(stop)
	wg.Wait()
	for i := range users {
		if passed[i].Load() != admitted || unbanned[i].Load() != denials-1 || began[i].Load() != 1 {
			t.Errorf("user %d: %d admitted, %d denials before the ban, %d bans", i, passed[i].Load(), unbanned[i].Load(),
				began[i].Load())
		}
	}
}

// moveSlot moves a slot key by key, what is no bucket last; between is called between the keys.
func moveSlot(t testing.TB, cluster *testenv.RedisCluster, slot int, from, to *testenv.RedisServer, between func()) {
	t.Helper()
	moved.Store(movedSlot{cluster.Nodes[0].Addr, slot}, true)
	ctx := context.Background()
	source, target := direct(t, from), direct(t, to)
	id := func(c *redis.Client) string { return c.Do(ctx, "CLUSTER", "MYID").Val().(string) }
	sourceID, targetID := id(source), id(target)
	must := func(c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	must(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	must(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		t.Fatal(err)
	}
	p, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 1000).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		slices.SortStableFunc(keys, func(a, b string) int {
			return cmp.Compare(strings.Count(a, "}:"), strings.Count(b, "}:"))
		})
		for _, k := range keys[:min(4, len(keys))] {
			must(source, "MIGRATE", host, p, k, 0, 5000)
		}
		between()
	}
	must(target, "CLUSTER", "SETSLOT", slot, "NODE", targetID)
	must(source, "CLUSTER", "SETSLOT", slot, "NODE", targetID)
	must(direct(t, cluster.Nodes[2]), "CLUSTER", "SETSLOT", slot, "NODE", targetID)
}

func TestCluster_CallerWhoLeavesFindsNothingSpent(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	cluster := testenv.Cluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	frozen := cluster.Nodes[1]
	narrow := ask(entityOn(t, cluster, cluster.Nodes[0]), 1, limits(month)[5])
	wide := ask(entityOn(t, cluster, frozen), 1, shop)
	take(t, s, "", narrow, wide)
	frozen.Pause()
	for range 5 {
		_, err := takeWithin(s, narrow, wide)
		var se *limiter.StoreError
		if !errors.As(err, &se) {
			t.Errorf("got %v", err)
		}
	}
	until(t, "everything to be given back", func() bool { return used(t, s, narrow) == 1 })
	frozen.Resume()
	until(t, "the breaker to close", func() bool {
		_, err := takeWithin(s, wide)
		return err == nil
	})
	var res limiter.Result
	until(t, "an answer", func() bool {
		return s.Do(context.Background(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{wide}}, &res) == nil
	})
	if got := shop.Count - res.Limits[0].Remaining; got != 2 {
		t.Errorf("the wide limit holds %d, admitted 2", got)
	}
	if st := s.Stats(); st.GiveBacks != 5 || st.GiveBacksLost != 0 {
		t.Errorf("got %+v, want 5 parts given back and none lost", st)
	}
}
