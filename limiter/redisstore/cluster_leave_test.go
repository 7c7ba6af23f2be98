package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// Close loses nothing of requests that are under way.
func TestCluster_CloseGivesBackWhatRequestsUnderWayTook(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	other := open(t, client(t, cluster.URL()), redisstore.Options{})
	a, b := entityOn(t, cluster, cluster.Nodes[0]), entityOn(t, cluster, cluster.Nodes[1])
	narrow, wide := shop, shop
	narrow.Count, wide.Count = shop.Count/2, 2*shop.Count
	first, second := ask(a, 1, narrow), ask(b, 1, wide)
	var allowed atomic.Int64
	lost := int64(0)
	for range 5 {
		s := open(t, client(t, cluster.URL()), redisstore.Options{})
		var wg sync.WaitGroup
		closed := make(chan struct{})
		for range 64 {
			wg.Go(func() {
				for {
					res, err := attempt(s, &limiter.Request{Asks: []limiter.Ask{first, second}})
					if err == nil && res.Allowed {
						allowed.Add(1)
					}
					select {
					case <-closed:
						return
					default:
					}
				}
			})
		}
		before := allowed.Load()
		until(t, "load", func() bool { return allowed.Load() >= before+500 })
		_ = s.Close()
		close(closed)
		wg.Wait()
		lost += s.Stats().GiveBacksLost
	}
	if x, y := used(t, other, first), used(t, other, second); x != allowed.Load() || y != allowed.Load() {
		t.Errorf("%d and %d are charged, %d were allowed, %d lost", x, y, allowed.Load(), lost)
	}
}

// Two attempts at a time under one id, by callers who leave after 1 to 5 ms, are charged once if one of them was
// allowed, and not at all otherwise.
func TestCluster_RepeatsOfCallersWhoLeaveStrandNothing(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	stores := []*redisstore.Store{
		open(t, client(t, cluster.URL()), redisstore.Options{}), open(t, client(t, cluster.URL()), redisstore.Options{}),
	}
	narrow, wide := shop, shop
	narrow.Count, wide.Count = shop.Count/2, 2*shop.Count
	var asks []limiter.Ask
	for i := range 3 {
		asks = append(asks, ask(entityOn(t, cluster, cluster.Nodes[i%3]), i, []limiter.Limit{narrow, shop, wide}[i%3]))
	}
	var allowed sync.Map
	var attempts, failed atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				id := fmt.Sprintf("%d/%d", g, n)
				var both sync.WaitGroup
				for k := range 2 {
					both.Go(func() {
						d := time.Duration(1000+(g*131+n*977+k*1733)%4000) * time.Microsecond
						ctx, cancel := context.WithTimeout(context.Background(), d)
						defer cancel()
						var res limiter.Result
						attempts.Add(1)
						if err := stores[k].Do(ctx, &limiter.Request{ID: id, Asks: asks}, &res); err != nil {
							failed.Add(1)
						} else if res.Allowed {
							allowed.Store(id, true)
						}
					})
				}
				both.Wait()
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		until(t, "undos", func() bool { return s.Stats().GiveBacksPending == 0 })
		t.Logf("%+v", s.Stats())
	}
	want := int64(0)
	allowed.Range(func(any, any) bool { want++; return true })
	t.Logf("%d attempts, %d failed, %d ids allowed", attempts.Load(), failed.Load(), want)
	for i, a := range asks {
		if got := used(t, stores[0], a); got != want {
			t.Errorf("bucket %d holds %d, want %d", i, got, want)
		}
	}
}
