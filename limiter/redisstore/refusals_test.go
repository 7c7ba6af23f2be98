package redisstore_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStore_AFailedSaveIsReadOnlyUntilOneSucceeds(t *testing.T) {
	srv := testenv.Redis(t, "--save", "3600 1", "--dir", "/proc") // where nobody can write
	c := client(t, srv.URL())
	s := open(t, c, redisstore.Options{})
	ctx, a := context.Background(), ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	if err := c.BgSave(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the save has failed", func() bool {
		return strings.Contains(c.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	wantCause(t, try(s, time.Second, a), limiter.CauseReadOnly, false)
	if err := c.ConfigSet(ctx, "stop-writes-on-bgsave-error", "no").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it decides again", func() bool { return try(s, time.Second, a) == nil })
}

func TestStore_ALoadingServerIsNamedAndWaitedFor(t *testing.T) {
	srv := testenv.Redis(t, "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
	c := client(t, srv.URL())
	ctx, a := context.Background(), ask(entity(), 1, limits(month)[0])
	for _, args := range [][]any{{"DEBUG", "POPULATE", "4000", "key", "100"}, {"SAVE"}} {
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	srv.Restart() // 4000 keys of half a millisecond each
	s := open(t, client(t, srv.URL()), redisstore.Options{})
	wantCause(t, try(s, time.Second, a), limiter.CauseLoading, false)
	eventually(t, "it decides", func() bool { return try(s, time.Second, a) == nil })
}

func TestStore_ASmallPoolBehindASlowLineAnswersEveryoneInTime(t *testing.T) {
	srv := testenv.Redis(t)
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "redis",
		"127.0.0.1:0", srv.Addr)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	c, err := redisstore.NewClient("redis://"+proxy.Listen, redisstore.ClientOptions{PoolSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := open(t, c, redisstore.Options{})
	a := ask(entity(), 1, limits(month)[0])
	take(t, s, "", a)
	if _, err := proxy.Toxics.AddToxicJson(
		strings.NewReader(`{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":50}}`)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	causes, most := map[limiter.Cause]int{}, time.Duration(0)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for range 5 {
				start := time.Now()
				err := try(s, 25*time.Millisecond, a)
				mu.Lock()
				causes[limiter.CauseOf(err)]++
				most = max(most, time.Since(start))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("1000 checks of 200 clients, all answered within %s: %v", most, causes)
	if n := causes[limiter.CauseTimeout] + causes[limiter.CauseBusy] + causes[limiter.CauseBreaker] +
		causes[limiter.CauseConnection]; n != 1000 || causes[limiter.CauseBreaker] == 0 {
		t.Errorf("causes %v", causes)
	}
	if most > time.Second { // 25 ms, on a machine that may be busy
		t.Errorf("an answer took %s", most)
	}
}
