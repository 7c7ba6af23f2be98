package nearstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// open starts a node before inner that closes with the test.
func open(t testing.TB, inner limiter.Store, opt Options) *Store {
	t.Helper()
	opt.Store = inner
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// exact answers as the store behind it would, figures and all, with everything
// switched on.
func exact(t testing.TB, inner limiter.Store, clock func() int64) limiter.Store {
	opt := Options{DenyCache: 1000, DenyExact: true, HotRate: 1}
	if clock != nil {
		opt.Now = func() time.Time { return time.UnixMilli(clock()) }
	}
	return open(t, inner, opt)
}

// onRedis is a store on the shared Redis, on the given clock.
func onRedis(t testing.TB, clock func() int64) limiter.Store {
	t.Helper()
	client, err := redisstore.NewClient(testenv.SharedRedis(t).URL(),
		redisstore.ClientOptions{DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(redisstore.Options{Client: client, Clock: clock, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var harnesses = map[string]storetest.Harness{
	"BeforeMemory": {New: func(t *testing.T, clock func() int64) limiter.Store {
		m := memstore.New(memstore.Options{Clock: clock})
		t.Cleanup(func() { _ = m.Close() })
		return exact(t, m, clock)
	}},
	"BeforeRedis": {
		New: func(t *testing.T, clock func() int64) limiter.Store { return exact(t, onRedis(t, clock), clock) },
		Pair: func(t *testing.T) (a, b limiter.Store) {
			return pair(t, Options{DenyCache: 1000, DenyExact: true, HotRate: 1})
		},
	},
}

func eachStore(t *testing.T, suite func(*testing.T, storetest.Harness)) {
	for name, h := range harnesses {
		t.Run(name, func(t *testing.T) { suite(t, h) })
	}
}

func TestModel_Conforms(t *testing.T) {
	t.Run("BeforeMemory", func(t *testing.T) { storetest.Model(t, harnesses["BeforeMemory"]) })
	// The random streams of the suite find before Redis what they find before memory and in package redisstore, and take
	// long.
	for name, part := range map[string]func(*testing.T, storetest.Harness){
		"Looks": storetest.Looks, "Records": storetest.Records, "Oldest": storetest.Oldest,
		"Settlements": storetest.Settlements, "Births": storetest.Births, "Tallies": storetest.Tallies,
		"Overcharges": storetest.Overcharges, "Kept": storetest.Kept, "Errors": storetest.Errors,
	} {
		t.Run("BeforeRedis/"+name, func(t *testing.T) { part(t, harnesses["BeforeRedis"]) })
	}
}

func TestModel_Vectors(t *testing.T) { eachStore(t, storetest.Vectors) }

func TestStore_WeathersStorms(t *testing.T) { eachStore(t, storetest.Storm) }

// pair is two nodes before one Redis that tell each other what to forget.
func pair(t testing.TB, opt Options) (a, b *Store) {
	var mu sync.Mutex
	var nodes [2]*Store
	tell := func(i int) func(limiter.Key, bool) {
		return func(k limiter.Key, leases bool) {
			mu.Lock()
			other := nodes[i]
			mu.Unlock()
			if other != nil {
				other.Forget(k, leases)
			}
		}
	}
	opt.Nodes = func() int { return 2 }
	for i := range nodes {
		opt.Tell = tell(1 - i)
		n := open(t, onRedis(t, nil), opt)
		mu.Lock()
		nodes[i] = n
		mu.Unlock()
	}
	return nodes[0], nodes[1]
}

// The whole suite of storms with every bucket leased or sharded would ask for
// figures that these do not give; what must hold for them is in lease_test.go
// and shard_test.go. What the cache says of several limits is exact enough for
// the storms.
func TestStore_WeathersTheStormsWithEverythingOn(t *testing.T) {
	storetest.Storm(t, storetest.Harness{
		New:  func(t *testing.T, _ func() int64) limiter.Store { return onRedis(t, nil) },
		Pair: func(t *testing.T) (a, b limiter.Store) { return pair(t, Options{DenyCache: 1000, HotRate: 10}) },
	})
}
