package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// spread is a store that gives every bucket a slot of its own, as far as there
// are any: each limit of a request lives elsewhere.
type spread struct{ limiter.Store }

func (s spread) request(req *limiter.Request) *limiter.Request {
	out := *req
	out.Asks = make([]limiter.Ask, len(req.Asks))
	for i, a := range req.Asks {
		key := strings.NewReplacer("{", "", "}", "").Replace(string(a.Key))
		key = key[:strings.LastIndexByte(key, '|')] // a ban lives beside its bucket
		a.Key = limiter.Key("{" + key + "}|" + a.Limit.Algorithm.Kind())
		out.Asks[i] = a
	}
	return &out
}

func (s spread) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	return s.Store.Do(ctx, s.request(req), res)
}

func (s spread) DoAll(ctx context.Context, calls []limiter.Call) {
	moved := make([]limiter.Call, len(calls))
	for i := range calls {
		moved[i].Request = *s.request(&calls[i].Request)
	}
	s.Store.DoAll(ctx, moved)
	for i := range calls {
		calls[i].Result, calls[i].Err = moved[i].Result, moved[i].Err
	}
}

// onCluster is a cluster, and stores on it: with the limits of a request in one slot, and in slots of their own.
func onCluster(t *testing.T) (cluster *testenv.RedisCluster, one, own storetest.Harness) {
	cluster = testenv.SharedCluster(t)
	node := func(t *testing.T, clock func() int64) limiter.Store {
		return open(t, client(t, cluster.URL()), redisstore.Options{Clock: clock})
	}
	one = storetest.Harness{
		New:  node,
		Pair: func(t *testing.T) (a, b limiter.Store) { return node(t, nil), node(t, nil) },
	}
	own = storetest.Harness{
		New:  func(t *testing.T, clock func() int64) limiter.Store { return spread{node(t, clock)} },
		Pair: func(t *testing.T) (a, b limiter.Store) { return spread{node(t, nil)}, spread{node(t, nil)} },
	}
	return cluster, one, own
}

func TestModel_ConformsOnACluster(t *testing.T) {
	_, one, own := onCluster(t)
	// The algorithms are the same as on a single node, where everything runs. So
	// are requests with a single limit, which live in one slot either way, as a
	// limit and its ban do.
	t.Run("LimitsOfOneEntity", func(t *testing.T) {
		storetest.Records(t, one)
		storetest.Looks(t, one)
		storetest.Formers(t, one)
		storetest.Periods(t, one)
		storetest.Settlements(t, one)
		storetest.Births(t, one)
		storetest.Kept(t, one)
		storetest.Errors(t, one)
	})
	// Records are not compared: across slots they belong to the parts of a
	// request. Their own tests are beside this one.
	t.Run("LimitsInSlotsOfTheirOwn", func(t *testing.T) {
		storetest.Vectors(t, own)
		storetest.Looks(t, own)
		storetest.Bans(t, own)
		storetest.Formers(t, own)
		storetest.Settlements(t, own)
		storetest.Births(t, own)
		storetest.Kept(t, own)
		storetest.Errors(t, own)
	})
	t.Run("FiguresOfManySlots", func(t *testing.T) { figuresOfManySlots(t, own) })
	t.Run("NamedRequests", func(t *testing.T) { namedRequests(t, own) })
}

func TestStore_WeathersStormsOnACluster(t *testing.T) {
	cluster, _, own := onCluster(t)
	storetest.Storm(t, own)
	t.Run("ManyAttemptsUnderOneName", func(t *testing.T) { manyAttempts(t, own, false) })
	t.Run("ManyAttemptsThatGiveBack", func(t *testing.T) { manyAttempts(t, own, true) })
	t.Run("EveryEntityOnItsNode", func(t *testing.T) { everyEntity(t, cluster) })
	t.Run("OneAddressGivenTwice", func(t *testing.T) { oneAddressGivenTwice(t, cluster) })
}

// oneAddressGivenTwice: a cluster with a single endpoint, as managed ones have, is named twice in REDIS_URL.
func oneAddressGivenTwice(t *testing.T, cluster *testenv.RedisCluster) {
	addr := cluster.Addrs()[0]
	s := open(t, client(t, "redis://"+addr+","+addr), redisstore.Options{})
	for range 30 { // in slots of every node
		take(t, s, "", ask(entity(), 0, limits(month)[0]))
	}
}

// figuresOfManySlots compares answers with those of the reference, where all
// limits live together.
func figuresOfManySlots(t *testing.T, h storetest.Harness) {
	clock := storetest.NewClock(1_795_000_000_000)
	reference, s := storetest.NewReference(clock.Now), h.New(t, clock.Now)
	all := []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 7, Window: 500, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 9, Window: 700},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 8, Window: 900, Buckets: 7},
		{Algorithm: limiter.SlidingWindowLog, Count: 6, Window: 800},
		{Algorithm: limiter.TokenBucket, Count: 3, Window: 300, Burst: 5},
		{Algorithm: limiter.GCRA, Count: 5, Window: 400, Burst: 4},
		{Algorithm: limiter.LeakyQueue, Count: 4, Window: 350, Burst: 6},
	}
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 1))
	denied := 0
	for i := range 800 {
		req := limiter.Request{}
		if random.IntN(10) == 0 {
			req.Op = []limiter.Op{limiter.OpPeek, limiter.OpCharge, limiter.OpReset}[random.IntN(3)]
		}
		for n := range all {
			if random.IntN(2) == 0 {
				a := ask("many", n, all[n])
				a.Weight, a.Look = int64(random.IntN(4)), random.IntN(5) == 0
				req.Asks = append(req.Asks, a)
			}
		}
		if len(req.Asks) == 0 {
			continue
		}
		clock.Advance(int64(random.IntN(40)))
		var got, want limiter.Result
		if err := errors.Join(s.Do(context.Background(), &req, &got),
			reference.Do(context.Background(), &req, &want)); err != nil {
			t.Fatal(err)
		}
		if !want.Allowed {
			denied++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("request %d of seed %d, %s %+v (-want +got):\n%s", i, seed, req.Op, req.Asks, diff)
		}
	}
	if denied < 50 {
		t.Errorf("only %d requests were denied", denied)
	}
}

// everyEntity: many entities in one batch, each on its own node.
func everyEntity(t *testing.T, cluster *testenv.RedisCluster) {
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	const n = 300
	calls := make([]limiter.Call, n)
	for round := range 2 {
		for i := range calls {
			name := fmt.Sprintf("user:%d", i)
			calls[i].Request = limiter.Request{ID: fmt.Sprint(round),
				Asks: []limiter.Ask{ask(name, 1, limits(month)[1]), ask(name, 2, limits(month)[7])}}
		}
		s.DoAll(context.Background(), calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatal(calls[i].Err)
			}
			if got := calls[i].Result.Limits[0].Remaining; got != int64(99-round) {
				t.Fatalf("entity %d: remaining %d in round %d", i, got, round)
			}
		}
	}
}

// namedRequests: a request with an ID is charged once, whatever is repeated.
func namedRequests(t *testing.T, h storetest.Harness) {
	clock := storetest.NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	name := entity()
	wide := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: month}
	narrow := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 3, Window: month}
	slots := limiter.Limit{Algorithm: limiter.Concurrency, Count: 2, Window: month}
	asks := []limiter.Ask{ask(name, 1, wide), ask(name, 2, narrow), ask(name, 3, slots)}
	left := func(want ...int64) {
		t.Helper()
		for i, d := range do(t, s, limiter.OpPeek, "peek", asks...).Limits {
			if d.Remaining != want[i] {
				t.Errorf("limit %d has %d left, want %d", i, d.Remaining, want[i])
			}
		}
	}
	first := take(t, s, "a", asks...)
	clock.Advance(5)
	again := take(t, s, "a", asks...)
	first.Replayed = true
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("repeat (-want +got):\n%s", diff)
	}
	left(99, 2, 1)
	take(t, s, "b", asks...)
	left(98, 1, 0)
	if res := take(t, s, "c", asks...); res.Allowed || res.Limits[2].Allowed {
		t.Errorf("a third lease of two: %+v", res)
	}
	left(98, 1, 0)
	// The holder of a lease asks again under its own ID for other limits: that
	// is denied by another limit and leaves the lease alone.
	full := ask(name, 4, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: month})
	take(t, s, "", full)
	if res := take(t, s, "b", asks[2], full); res.Allowed {
		t.Errorf("got %+v", res)
	}
	left(98, 1, 0)
	refunded := do(t, s, limiter.OpRefund, "a", asks...)
	for i, d := range refunded.Limits {
		if d.Refunded != 1 {
			t.Errorf("limit %d gave back %d", i, d.Refunded)
		}
	}
	left(99, 2, 1)
	if res := take(t, s, "a", asks...); res.Replayed || !res.Allowed {
		t.Errorf("after the refund: %+v", res)
	}
	left(98, 1, 0)
}

// manyAttempts: attempts under one ID race each other and those of other IDs
// for limits that have no room for all, while units come and go. Each ID that
// was admitted by any attempt is charged once, every other not at all.
// With givesBack some of those that were admitted give back what they have taken, as after a denial elsewhere.
func manyAttempts(t *testing.T, h storetest.Harness, givesBack bool) {
	a, b := h.Pair(t)
	nodes := [2]limiter.Store{a, b}
	name := entity()
	tight := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 60, Window: month, Align: limiter.AlignFirstHit}
	wide := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 70, Window: month}
	asks := []limiter.Ask{ask(name, 1, wide), ask(name, 2, tight), ask(name, 3, limits(month)[5])}
	const callers, names = 16, 100
	var admitted [names]atomic.Bool
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for n := range names {
				n = (n + g/4) % names // four callers at a time ask under one name
				req := limiter.Request{ID: fmt.Sprint(n), Asks: asks}
				if givesBack {
					req.Attempt = int64(g + 1)
				}
				if n%5 == 0 { // room comes and goes
					other := limiter.Request{ID: fmt.Sprintf("%d by %d", n, g), Asks: asks[1:2]}
					var res limiter.Result
					err := nodes[g%2].Do(context.Background(), &other, &res)
					other.Op = limiter.OpRefund
					if err = errors.Join(err, nodes[g%2].Do(context.Background(), &other, &res)); err != nil {
						t.Error(err)
					}
				}
				var res limiter.Result
				if err := nodes[g%2].Do(context.Background(), &req, &res); err != nil {
					t.Error(err)
				}
				switch {
				case !res.Allowed:
				case givesBack && (n+g)%3 == 0:
					back := limiter.Request{Op: limiter.OpRefund, ID: req.ID, Attempt: req.Attempt, Asks: asks}
					if err := nodes[g%2].Do(context.Background(), &back, &res); err != nil {
						t.Error(err)
					}
				default:
					admitted[n].Store(true)
				}
			}
		})
	}
	wg.Wait()
	want := int64(0)
	for i := range admitted {
		if admitted[i].Load() {
			want++
		}
	}
	for i, d := range do(t, nodes[0], limiter.OpPeek, "", asks...).Limits {
		if got := asks[i].Limit.Capacity() - d.Remaining; got != want {
			t.Errorf("limit %d holds %d, %d requests were admitted", i, got, want)
		}
	}
	if want < 50 || want > 60 {
		t.Errorf("%d requests were admitted of a limit of 60", want)
	}
}
