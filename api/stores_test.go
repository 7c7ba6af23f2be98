package api

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules"
)

var prefixes atomic.Int64

// patience is how long a test waits for its own Redis on a busy machine, where
// production would let a fail mode decide.
const patience = 20 * time.Second

// onRedis makes a store on a real Redis whose clock is the one given.
func onRedis(t testing.TB, clock func() int64) limiter.Store {
	t.Helper()
	return at(t, testenv.SharedRedis(t).URL(), clock)
}

// at makes a store on the Redis or cluster at an address.
func at(t testing.TB, url string, clock func() int64) limiter.Store {
	t.Helper()
	client, err := redisstore.NewClient(url, redisstore.ClientOptions{DialTimeout: patience, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	prefix := "api" + strings.Repeat("x", int(prefixes.Add(1))) + ":"
	s, err := redisstore.New(redisstore.Options{Client: client, Prefix: prefix, Clock: clock, MaxWait: patience,
		ProbeLimit: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// onBothStores runs a test on a server with buckets in memory and on one with
// buckets in Redis. pools are in force beside the rules.
func onBothStores(t *testing.T, pools []rules.Pool, rs []rules.Rule, test func(t *testing.T, f *fixture)) {
	t.Helper()
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			test(t, pooled(t, kind, pools, rs))
		})
	}
}

// pooled is a fixture on a kind of store with pools in force.
func pooled(t testing.TB, kind string, pools []rules.Pool, rs []rules.Rule,
	edit ...func(*decide.CheckerOptions, *Deps)) *fixture {
	t.Helper()
	f := newFixture(t, nil, append(edit, func(o *decide.CheckerOptions, _ *Deps) { o.Timeout = patience })...)
	if kind == "redis" {
		f.store.Store = onRedis(t, f.now.Load)
	}
	f.pools = pools
	for _, r := range rs {
		if _, err := f.book.CreateRule(t.Context(), rules.Actor{Kind: "system", Name: "test"}, r); err != nil {
			t.Fatal(err)
		}
	}
	f.reload()
	return f
}

// aMinute is a rule of so many units a minute for each user.
func aMinute(name string, limit int64) rules.Rule {
	r := perUser(name, limit)
	r.WindowMS = 60_000
	return r
}

func soft(r rules.Rule, percent int64) rules.Rule {
	r.Throttle, r.SoftPercent = rules.ThrottleSoft, &percent
	return r
}

func elastic(r rules.Rule, percent int64, pool, priority string) rules.Rule {
	r.Throttle, r.ElasticPercent = rules.ThrottleElastic, &percent
	return inPool(r, pool, priority)
}

func inPool(r rules.Rule, pool, priority string) rules.Rule {
	r.Pool, r.Priority = &pool, &priority
	return r
}

func byReport(r rules.Rule) rules.Rule {
	r.ChargeOn = rules.ChargeOnReport
	return r
}

// shop is a pool of so many units a minute.
func shop(limit int64) []rules.Pool {
	p := rules.NewPool()
	p.Name, p.Limit, p.WindowMS = "shop", limit, 60_000
	return []rules.Pool{p}
}
