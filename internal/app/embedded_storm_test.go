package app

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Without Redis nothing can be unavailable, so exactly the limit passes however little CPU the node gets, although
// limits without a fail mode are open.
func TestEmbedded_StormBesideHogsPassesExactlyTheLimit(t *testing.T) {
	const limit, callers, batches, batch = 6_000, 8, 5, 500
	cfg := settings(t)
	cfg.StoreTimeout = time.Millisecond // a batch needs more
	n := start(t, cfg)
	stop := hogs(2 * runtime.GOMAXPROCS(0))
	defer stop()

	check := fmt.Sprintf(`{"key":"storm","limit":%d,"window_ms":31536000000}`, limit)
	body := `{"checks":[` + strings.Repeat(check+",", batch-1) + check + `]}`
	var allowed, degraded, answered atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range batches {
				status, doc, err := requestOnce(t.Context(), n.client, http.MethodPost, n.url+"/ratelimit/check/batch", body)
				if err != nil || status != http.StatusOK {
					t.Errorf("a batch got %d %.200s %v", status, doc, err)
					return
				}
				answered.Add(batch)
				allowed.Add(int64(strings.Count(doc, `{"allowed":true,"status":200`)))
				degraded.Add(int64(batch - strings.Count(doc, `"degraded":null`)))
			}
		})
	}
	wg.Wait()
	if answered.Load() != callers*batches*batch || allowed.Load() != limit || degraded.Load() != 0 {
		t.Errorf("of %d checks %d passed, %d by a fail mode; want the limit, %d", answered.Load(), allowed.Load(),
			degraded.Load(), limit)
	}
}

// hogs starts n goroutines that use the processors all the time, and returns a function that ends them.
func hogs(n int) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for !done.Load() {
			}
		})
	}
	return func() {
		done.Store(true)
		wg.Wait()
	}
}
