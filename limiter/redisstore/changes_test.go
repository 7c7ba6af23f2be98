package redisstore_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

func TestModel_RegionsConformOnACluster(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	h := regionHarness(func(testing.TB) string { return cluster.URL() })
	storetest.RegionCases(t, h)
	storetest.RestoreCases(t, h)
}

// exportAll exports until nothing new comes for a whole round of slots.
func exportAll(t *testing.T, s *redisstore.Store, rounds int) map[limiter.Key]int64 {
	t.Helper()
	taken := map[limiter.Key]int64{}
	for range rounds {
		sums, err := s.Export(context.Background(), 10_000, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range sums {
			taken[e.Key] = e.Sums.Taken
		}
	}
	return taken
}

// A node that dies takes with it what it knew of changed slots, not what changed.
func TestStore_AnotherNodeExportsWhatADeadOneHasChanged(t *testing.T) {
	cluster, opt := testenv.SharedCluster(t), redisstore.Options{Prefix: entity()}
	spent := map[limiter.Key]int64{}
	dead := open(t, client(t, cluster.URL()), opt)
	for i, l := range limits(month) {
		if !l.Algorithm.Traits().Spans() {
			continue
		}
		for n := range int64(20) {
			a := ask(entity(), i, l)
			a.Spans, a.Weight = true, 1+n%3
			do(t, dead, limiter.OpCharge, "", a)
			spent[a.Key] = a.Weight
		}
	}
	other := open(t, client(t, cluster.URL()), opt)
	got := exportAll(t, other, 256)
	for key, units := range spent {
		if got[key] != units {
			t.Errorf("%s: %d taken, want %d", key, got[key], units)
		}
	}
	if again := exportAll(t, dead, 256); len(again) != 0 {
		t.Errorf("%d buckets are exported although they are leased", len(again))
	}
}

// A take lists a bucket once that holds so much of its limit that it is worth telling: no sooner, and no later.
func TestStore_ExportsWhatIsWorthTelling(t *testing.T) {
	parts := limiter.WorthParts(3)
	all := append(limits(100_000), limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 100, Window: 100_000, Burst: 100},
		limiter.Limit{Algorithm: limiter.FixedWindow, Align: limiter.AlignFirstHit, Count: 100, Window: 100_000})
	for i, l := range all {
		if !l.Algorithm.Traits().Spans() {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", i, l.Algorithm), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // a load
			clock := storetest.NewClock(1_795_000_000_000)
			s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Clock: clock.Now,
				Prefix: fmt.Sprintf("worth%d:", i), Regions: limiter.Regions{Count: 3, Wait: 200, Parts: parts}})
			l.Count, l.Burst = 3000, min(l.Burst*3000, 3000)
			listed, unlisted, told := 0, 0, limiter.Sums{}
			var key limiter.Key
			for n := range 400 {
				if n%40 == 0 {
					key = ask(entity(), i, l).Key
				}
				a := limiter.Ask{Key: key, Limit: l, Spans: true, Weight: r.Int64N(3)}
				op := limiter.OpTake
				switch r.IntN(60) {
				case 0:
					op = limiter.OpCharge
				case 1:
					op, a.Weight = limiter.OpReset, 0
				case 2, 3:
					clock.Advance(l.Window)
				default:
					clock.Advance(r.Int64N(l.Window / 20))
				}
				do(t, s, op, "", a)
				sums, err := s.Export(t.Context(), 10, 0)
				if err == nil {
					err = s.Confirm(t.Context(), sums)
				}
				if err != nil {
					t.Fatal(err)
				}
				own := spentOf(t, s, key)
				changed := own.Taken != told.Taken || own.Born != told.Born || own.Reset != told.Reset
				if want := changed && own.Worth(l, parts); want != (len(sums) == 1) {
					t.Fatalf("step %d: %d exported of %+v, told was %+v", n, len(sums), own, told)
				}
				if told = own; len(sums) > 0 {
					listed++
				} else if changed {
					unlisted++
				}
			}
			if listed < 50 || unlisted < 50 && l.Align != limiter.AlignFirstHit {
				t.Errorf("%d were worth telling, %d not: the test tries too few", listed, unlisted)
			}
		})
	}
}

// spentOf is what a region has spent in a bucket.
func spentOf(t *testing.T, s *redisstore.Store, key limiter.Key) limiter.Sums {
	t.Helper()
	spent, err := s.Spent(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return spent.Own
}

// While a slot moves, a server cannot read the buckets that have gone already, nor keep a lease.
func TestStore_ExportsWhatChangedInASlotThatMoves(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{Prefix: entity()})
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	e := entityOn(t, cluster, from)
	spent := map[limiter.Key]int64{}
	var name string
	for n := range 12 {
		a := ask(e, n, shop)
		a.Spans, a.Weight = true, int64(1+n)
		do(t, s, limiter.OpCharge, "", a)
		name = string(a.Key)
		if n > 0 {
			spent[a.Key] = a.Weight
		} else if sums := exportAll(t, s, 1); len(sums) != 1 { // so that there are leases
			t.Fatal(sums)
		}
	}
	got := map[limiter.Key]int64{}
	export := func() {
		sums, err := s.Export(t.Context(), 10_000, time.Hour)
		for _, e := range sums {
			got[e.Key] = e.Sums.Taken
		}
		if err == nil {
			err = s.Confirm(t.Context(), sums)
		}
		if err != nil {
			t.Log(err) // of the slot that moves
		}
	}
	moveSlot(t, cluster, slotOf(t, direct(t, from), name), from, to, export)
	until(t, "the export of every bucket", func() bool { export(); return len(got) == len(spent) })
	if !maps.Equal(got, spent) {
		t.Errorf("%v, want %v", got, spent)
	}
}

// New buckets come into being at the server to which a slot moves, before the set of changed ones is there.
func TestStore_ASlotMovesWhileNewBucketsChangeInIt(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{Prefix: entity()})
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	e := entityOn(t, cluster, from)
	spent, got, asks := map[limiter.Key]int64{}, map[limiter.Key]int64{}, []limiter.Ask{}
	spend := func() {
		a := ask(e, len(asks), shop)
		a.Spans, a.Weight = true, int64(1+len(asks))
		asks = append(asks, a)
		do(t, s, limiter.OpCharge, "", a)
		spent[a.Key] += a.Weight
		old := asks[len(asks)/2] // a bucket at either server
		do(t, s, limiter.OpCharge, "", old)
		spent[old.Key] += old.Weight
	}
	for range 6 {
		spend()
	}
	slot := slotOf(t, direct(t, from), string(asks[0].Key))
	export := func() bool {
		sums, err := s.Export(t.Context(), 10_000, 0)
		if err != nil {
			t.Log(err) // of the slot that moves
		}
		for _, e := range sums {
			got[e.Key] = max(got[e.Key], e.Sums.Taken)
		}
		return maps.Equal(got, spent)
	}
	for range 2 { // there, and back
		export() // so that a batch is leased when the slot moves
		spend()
		moveSlot(t, cluster, slot, from, to, func() {
			spend()
			export()
		})
		from, to = to, from
		until(t, "the export of all units", export)
	}
}

func TestStore_ExportsTheKeysThatItWasGiven(t *testing.T) {
	for name, plain := range map[string]bool{"packed": false, "plain": true} {
		s := open(t, client(t, testenv.Redis(t).URL()), redisstore.Options{PlainKeys: plain})
		for _, l := range limits(month) {
			if !l.Algorithm.Traits().Spans() {
				continue
			}
			for _, facts := range []string{"{user:42}|7|", "{ip:203.0.113.7}|200|", "{user:with%20blank}+route:x|9|"} {
				a := limiter.Ask{Key: limiter.Key(facts + l.Algorithm.Kind()), Limit: l, Weight: 3, Spans: true}
				do(t, s, limiter.OpReset, "", a)
				do(t, s, limiter.OpCharge, "", a)
				sums, err := s.Export(context.Background(), 10, 0)
				if err != nil || len(sums) != 1 || sums[0].Key != a.Key || sums[0].Sums.Taken != 3 {
					t.Fatalf("%s, %s: %+v, %v", name, a.Key, sums, err)
				}
				if err := s.Confirm(context.Background(), sums); err != nil {
					t.Fatal(err)
				}
				if sums, err := s.Export(context.Background(), 10, 0); err != nil || len(sums) > 0 {
					t.Fatalf("%s, %s: %+v, %v after it was confirmed", name, a.Key, sums, err)
				}
			}
		}
	}
}

// Years of 365 and of 366 days have the same number now.
func TestStore_AnEditOfTheWindowBeginsNewSums(t *testing.T) {
	s := open(t, client(t, testenv.Redis(t).URL()), redisstore.Options{})
	e, day := entity(), (24 * time.Hour).Milliseconds()
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 100}, {Algorithm: limiter.SlidingWindowCounter, Count: 100},
		{Algorithm: limiter.LeakyBucket, Count: 100, Burst: 100},
	} {
		var shapes []int64
		for _, days := range []int64{365, 366} {
			l.Window = days * day
			a := ask(e, 1, l)
			a.Spans = true
			for range 2 {
				do(t, s, limiter.OpTake, "", a)
			}
			sums, err := s.Export(t.Context(), 10, time.Hour)
			if err != nil || len(sums) != 1 {
				t.Fatal(sums, err)
			}
			shapes = append(shapes, sums[0].Sums.Shape)
		}
		if shapes[0] == shapes[1] {
			t.Errorf("%s: sums of the old window after an edit", l.Algorithm)
		}
	}
}

func TestStore_ExportGoesOnAfterARestartOfTheServer(t *testing.T) {
	srv := testenv.Redis(t)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	a := ask(entity(), 1, shop)
	a.Spans = true
	do(t, s, limiter.OpTake, "", a)
	if err := direct(t, srv).ScriptFlush(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	do(t, s, limiter.OpTake, "", a)
	if got := exportAll(t, s, 1)[a.Key]; got != 2*a.Weight {
		t.Errorf("%d taken, want %d", got, 2*a.Weight)
	}
}

// afterCalls calls a function after each call of a script.
type afterCalls struct{ do func() }

func (afterCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h afterCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" {
			h.do()
		}
		return err
	}
}

func (afterCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Buckets that change again as soon as they are exported would keep an export busy for ever.
func TestStore_ExportsEachBucketOnceUnderLoad(t *testing.T) {
	srv := testenv.Redis(t)
	busy := open(t, client(t, srv.URL()), redisstore.Options{})
	const buckets = 150
	var asks []limiter.Ask
	for n := range buckets {
		a := ask(entity(), n, shop)
		a.Spans = true
		asks = append(asks, a)
	}
	change := func() {
		for _, a := range asks {
			do(t, busy, limiter.OpCharge, "", a)
		}
	}
	change()
	c := client(t, srv.URL())
	s := open(t, c, redisstore.Options{})
	c.AddHook(afterCalls{change})
	if sums, err := s.Export(t.Context(), 10_000, time.Hour); err != nil || len(sums) != buckets {
		t.Errorf("%d exported of %d, %v", len(sums), buckets, err)
	}
}

// A call of a script stops the server. So many buckets are exported and confirmed in several calls, and those that have
// expired meanwhile do not end it.
func TestStore_ExportsManyBucketsInSeveralCalls(t *testing.T) {
	srv := testenv.Redis(t)
	c := direct(t, srv)
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	const buckets = 450
	for n := range buckets {
		a := ask(entity(), n, shop)
		a.Spans = true
		do(t, s, limiter.OpCharge, "", a)
	}
	gone, err := c.Keys(t.Context(), "*:z").Result()
	if err != nil || len(gone) != buckets {
		t.Fatalf("%d buckets, %v", len(gone), err)
	}
	if err := c.Del(t.Context(), gone[:150]...).Err(); err != nil {
		t.Fatal(err)
	}
	calls := func() int64 {
		t.Helper()
		info, err := c.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
		text, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n, err := s.Changed(t.Context()); err != nil || n != buckets {
		t.Errorf("%d have changed, %v, want %d", n, err, buckets)
	}
	before := calls()
	sums, err := s.Export(t.Context(), 10_000, time.Hour)
	if err != nil || len(sums) != buckets-150 {
		t.Fatalf("%d exported, %v", len(sums), err)
	}
	if n := calls() - before; n < buckets/100 {
		t.Errorf("%d calls for %d buckets", n, buckets)
	}
	before = calls()
	if err := s.Confirm(t.Context(), sums); err != nil {
		t.Fatal(err)
	}
	if n := calls() - before; n < int64(len(sums))/100 {
		t.Errorf("%d calls confirm %d buckets", n, len(sums))
	}
	if left, err := c.ZCard(t.Context(), "sl:leased").Result(); err != nil || left != 0 {
		t.Errorf("%d buckets are still leased, %v", left, err)
	}
}

// A value at one of the keys that is none of ours, whoever put it there, must not keep what the others have spent.
func TestStore_ExportsBesideForeignValues(t *testing.T) {
	srv := testenv.Redis(t)
	c := direct(t, srv)
	rubbish := strings.Repeat("x", 50)
	lease := func(p redis.Pipeliner, name string) {
		p.ZAdd(t.Context(), "sl:leased", redis.Z{Score: 1, Member: name})
	}
	many := make([]any, 9000) // more than a script may hand to a command
	for i := range many {
		many[i] = i
	}
	for name, spoil := range map[string]func(p redis.Pipeliner, bucket string){
		"what was heard":           func(p redis.Pipeliner, b string) { p.Set(t.Context(), b+":h", rubbish, 0) },
		"something that was heard": func(p redis.Pipeliner, b string) { p.HSet(t.Context(), b+":h", "us", rubbish) },
		"the value":                func(p redis.Pipeliner, b string) { p.Set(t.Context(), b, rubbish, 0) },
		"the type of the value": func(p redis.Pipeliner, b string) {
			p.Del(t.Context(), b)
			p.RPush(t.Context(), b, rubbish)
		},
		"members of the set": func(p redis.Pipeliner, _ string) {
			p.SAdd(t.Context(), "sl:changed", "", rubbish, "sl:changed")
		},
		"a lease": func(p redis.Pipeliner, _ string) { lease(p, rubbish) },
		"the type of a batch": func(p redis.Pipeliner, _ string) {
			lease(p, "17")
			p.Set(t.Context(), "sl:leased:17", rubbish, 0)
		},
		"the size of a batch": func(p redis.Pipeliner, _ string) {
			lease(p, "17")
			p.SAdd(t.Context(), "sl:leased:17", many...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			s := open(t, client(t, srv.URL()), redisstore.Options{})
			const buckets = 10
			for n := range buckets {
				a := ask(entity(), n, shop)
				a.Spans = true
				do(t, s, limiter.OpCharge, "", a)
			}
			bucket, err := c.SRandMember(t.Context(), "sl:changed").Result()
			if err == nil {
				_, err = c.Pipelined(t.Context(), func(p redis.Pipeliner) error { spoil(p, bucket); return nil })
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := exportAll(t, s, 100); len(got) < buckets-1 {
				t.Errorf("%d of %d buckets exported", len(got), buckets)
			}
			if left, err := s.Changed(t.Context()); err != nil || left != 0 {
				t.Errorf("%d buckets left, %v", left, err)
			}
		})
	}
}

// Limits that use a draining bucket in turn do not shorten how long it is kept, nor what was heard of it: units of the
// longest period count as long.
func TestStore_KeepsABucketForTheLongestOfItsPeriods(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	s := open(t, c, redisstore.Options{Prefix: "longest:"})
	slow := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1000, Window: 86_400_000, Burst: 1000}
	fast := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1000, Window: 1000, Burst: 1000}
	a := ask(entity(), 0, slow)
	a.Spans = true
	take := func(l limiter.Limit) limiter.Sums {
		a.Limit = l
		do(t, s, limiter.OpTake, "", a)
		return spentOf(t, s, a.Key)
	}
	for _, l := range []limiter.Limit{slow, fast, fast, slow, slow} {
		take(l)
	}
	own := take(fast)
	if own.Taken != 6 {
		t.Errorf("%d taken, want 6 in one incarnation", own.Taken)
	}
	a.Limit = fast
	peer := limiter.Sums{Born: own.Born, Shape: own.Shape, Taken: 5, Windows: own.Windows}
	peer.Windows[0].Units = 5
	if err := s.Do(t.Context(), &limiter.Request{Op: limiter.OpApply, ID: "us", Sums: &peer, Asks: []limiter.Ask{a}},
		&limiter.Result{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range c.Keys(t.Context(), "longest:*"+string(a.Key.Tag())+"*").Val() {
		if life := c.PTTL(t.Context(), name).Val(); life < 2*24*time.Hour-time.Minute {
			t.Errorf("%s is kept for %s, want two days", name, life)
		}
		names = append(names, name)
	}
	if len(names) != 2 {
		t.Errorf("%q, want a bucket and what was heard of it", names)
	}
}
