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

// Undos have their turn while more takes arrive than their dispatcher has room for.
func TestCluster_UndosHaveTheirTurnUnderOverload(t *testing.T) {
	cluster := testenv.SharedCluster(t)
	s := open(t, client(t, cluster.URL()), redisstore.Options{MaxQueue: 512})
	other := open(t, client(t, cluster.URL()), redisstore.Options{})
	busy, full := entityOn(t, cluster, cluster.Nodes[0]), entityOn(t, cluster, cluster.Nodes[1])
	narrow, wide := shop, shop
	narrow.Count, wide.Count = shop.Count/2, 2*shop.Count
	taken := ask(busy, 2, narrow)
	denies := ask(full, 1, wide)
	denies.Weight = wide.Count
	take(t, other, "", denies)
	denies.Weight = 1
	var load, refused, denied, failed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 1500 {
		wg.Go(func() {
			for ctx.Err() == nil {
				var res limiter.Result
				if err := s.Do(ctx, &limiter.Request{Asks: []limiter.Ask{ask(busy, 1, wide)}}, &res); err != nil {
					refused.Add(1)
					time.Sleep(time.Millisecond)
				}
				load.Add(1)
			}
		})
	}
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil { // callers that leave
				c, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				var res limiter.Result
				if err := s.Do(c, &limiter.Request{Asks: []limiter.Ask{taken, denies}}, &res); err != nil {
					failed.Add(1)
					time.Sleep(time.Millisecond)
				} else {
					denied.Add(1)
				}
				cancel()
			}
		})
	}
	stuck, most, before := 0, 0, s.Stats()
	for i := range 20 {
		time.Sleep(time.Second)
		st := s.Stats()
		if stuck++; st.GiveBacksPending < before.GiveBacksPending || st.GiveBacks >= before.GiveBacks+before.GiveBacksPending {
			stuck = 0
		}
		most, before = max(most, stuck), st
		if i%5 == 4 {
			t.Logf("%d s: load %d, refused %d, denied %d, failed %d, %+v", i+1, load.Load(), refused.Load(), denied.Load(),
				failed.Load(), st)
		}
	}
	if most >= 4 {
		t.Errorf("for %d s no more was undone than came", most)
	}
	stop()
	wg.Wait()
	until(t, "undos", func() bool { return s.Stats().GiveBacksPending == 0 })
	if got := used(t, other, taken); got != 0 || s.Stats().GiveBacksLost > 0 {
		t.Errorf("%d are charged and nothing was allowed; %+v", got, s.Stats())
	}
}

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
		time.Sleep(300 * time.Millisecond)
		_ = s.Close()
		close(closed)
		wg.Wait()
		lost += s.Stats().GiveBacksLost
	}
	if x, y := used(t, other, first), used(t, other, second); x != allowed.Load() || y != allowed.Load() {
		t.Errorf("%d and %d are charged, %d were allowed, %d lost", x, y, allowed.Load(), lost)
	}
}

// A storm of callers who leave after 1 to 5 ms, while a primary stands still for a moment, strands nothing.
func TestCluster_AStormOfCallersWhoLeaveStrandsNothing(t *testing.T) {
	cluster := testenv.Cluster(t)
	stores := []*redisstore.Store{
		open(t, client(t, cluster.URL()), redisstore.Options{}), open(t, client(t, cluster.URL()), redisstore.Options{}),
	}
	narrow, wide := shop, shop
	narrow.Count, wide.Count = shop.Count/2, 2*shop.Count
	var asks []limiter.Ask
	for i := range 12 {
		l := []limiter.Limit{narrow, shop, wide}[i%3]
		asks = append(asks, ask(entityOn(t, cluster, cluster.Nodes[i%3]), i, l))
	}
	full := ask(entityOn(t, cluster, cluster.Nodes[2]), 99, wide)
	full.Weight = wide.Count
	take(t, stores[0], "", full)
	full.Weight = 1
	admitted := make([]atomic.Int64, len(asks))
	var rounds, failed, denied, wrong atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				req := limiter.Request{}
				kind := []int{(g + n) % 12, (g + n + 1 + n%3) % 12, (g + 2*n + 5) % 12}
				if kind[2] == kind[0] || kind[2] == kind[1] {
					kind = kind[:2]
				}
				for _, k := range kind {
					req.Asks = append(req.Asks, asks[k])
				}
				if n%4 == 3 {
					req.Asks = append(req.Asks, full)
				}
				if n%3 == 1 {
					req.ID = fmt.Sprintf("%d/%d", g, n)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1000+(g*131+n*977)%4000)*time.Microsecond)
				var res limiter.Result
				err := stores[g%2].Do(ctx, &req, &res)
				cancel()
				rounds.Add(1)
				switch {
				case err != nil:
					failed.Add(1)
				case !res.Allowed:
					denied.Add(1)
				default:
					if n%4 == 3 {
						wrong.Add(1)
					}
					for _, k := range kind {
						admitted[k].Add(1)
					}
				}
			}
		})
	}
	time.Sleep(2 * time.Second)
	for i := range 3 {
		cluster.Nodes[i].Pause()
		time.Sleep(500 * time.Millisecond)
		cluster.Nodes[i].Resume()
		time.Sleep(time.Second)
	}
	for _, s := range stores {
		t.Logf("%+v", s.Stats())
	}
	close(stop)
	wg.Wait()
	for _, s := range stores {
		until(t, "undos", func() bool { return s.Stats().GiveBacksPending == 0 })
		t.Logf("%+v", s.Stats())
	}
	t.Logf("%d requests, %d failed, %d denied", rounds.Load(), failed.Load(), denied.Load())
	for i, a := range asks {
		if got, want := used(t, stores[0], a), admitted[i].Load(); got != want {
			t.Errorf("bucket %d holds %d, admitted %d", i, got, want)
		}
	}
	if wrong.Load() > 0 {
		t.Errorf("%d were allowed that cannot be", wrong.Load())
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
	end := time.Now().Add(6 * time.Second)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				id := fmt.Sprintf("s1/%d/%d", g, n)
				var both sync.WaitGroup
				for k := range 2 {
					both.Go(func() {
						time.Sleep(time.Duration((n*37*k)%1500) * time.Microsecond)
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
