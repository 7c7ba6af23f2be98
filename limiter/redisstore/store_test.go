package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// client connects to url and closes with the test.
func client(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	// Connecting may take its time on a busy machine: what is tried is the store.
	c, err := redisstore.NewClient(url, redisstore.ClientOptions{DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open makes a store on c that closes with the test.
func open(t testing.TB, c redis.UniversalClient, opt redisstore.Options) *redisstore.Store {
	t.Helper()
	opt.Client = c
	s, err := redisstore.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// harness runs the shared suite on a redis-server.
var harness = storetest.Harness{
	New: func(t *testing.T, clock func() int64) limiter.Store {
		return open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{Clock: clock})
	},
	Pair: func(t *testing.T) (a, b limiter.Store) {
		url := testenv.SharedRedis(t).URL()
		return open(t, client(t, url), redisstore.Options{}), open(t, client(t, url), redisstore.Options{})
	},
}

func TestModel_Conforms(t *testing.T) { storetest.Model(t, harness) }

func TestPeriods_Conform(t *testing.T) { storetest.Periods(t, harness) }

func TestModel_Vectors(t *testing.T) { storetest.Vectors(t, harness) }

func TestStore_WeathersStorms(t *testing.T) { storetest.Storm(t, harness) }

// regionHarness gives every store buckets of its own on one server or cluster.
func regionHarness(url func(t testing.TB) string) storetest.RegionHarness {
	return storetest.RegionHarness{New: func(t *testing.T, clock func() int64) limiter.Exporter {
		return open(t, client(t, url(t)), redisstore.Options{Clock: clock, Prefix: entity(), Regions: storetest.TwoRegions})
	}}
}

func TestModel_RegionsConform(t *testing.T) {
	storetest.Regions(t, regionHarness(func(t testing.TB) string { return testenv.SharedRedis(t).URL() }))
}
