package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// largeBatch is a batch of 1,000 checks with 16 limits each, about 705 kB. weight 0 only looks.
func largeBatch(weight int) string {
	var b strings.Builder
	b.WriteString(`{"checks":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"weight":%d,"limits":[`, weight)
		for j := range 16 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"key":"%x-%d","limit":999,"window_ms":9000000}`, i, j)
		}
		b.WriteString(`]}`)
	}
	b.WriteString(`]}`)
	return b.String()
}

// largeBatches sends 20 large batches at once: each is answered or refused, and exactly what was answered is charged.
func largeBatches(t *testing.T, bin string) {
	const clients, rounds, limits = 20, 5, 16
	c := spawn(t, bin, "", "GOMAXPROCS=2")
	body := largeBatch(1)
	var answered, refused, allowed atomic.Int64
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			<-begin
			for range rounds {
				status, doc, err := c.ask("POST", "/ratelimit/check/batch", body)
				switch {
				case err == nil && status == http.StatusOK:
					answered.Add(1)
					allowed.Add(int64(strings.Count(doc, `{"allowed":true,"status":200`)))
				case err == nil && status == http.StatusServiceUnavailable && strings.Contains(doc, "/problems/overloaded"):
					refused.Add(1)
				default:
					t.Errorf("a batch got %d %.200s %v", status, doc, err)
				}
			}
		})
	}
	close(begin)
	wg.Wait()
	peak := c.peak()
	if answered.Load() == 0 {
		t.Error("no batch was answered")
	}
	if n := c.metric("sluice_large_refused_total"); n != float64(refused.Load()) {
		t.Errorf("%v refusals counted, %d batches refused", n, refused.Load())
	}
	status, doc, err := c.ask("POST", "/ratelimit/check/batch", largeBatch(0))
	if err != nil || status != http.StatusOK {
		t.Fatalf("the counters answered %d %.200s %v", status, doc, err)
	}
	charged := int64(0)
	for left := int64(999 - clients*rounds); left < 999; left++ {
		charged += (999 - left) * int64(strings.Count(doc, fmt.Sprintf(`"allowed":true,"limit":999,"remaining":%d,`, left)))
	}
	if charged != allowed.Load()*limits {
		t.Errorf("%d units charged, %d answered", charged, allowed.Load()*limits)
	}
	if peak > 300 {
		t.Errorf("%d MiB resident at most, want 300", peak)
	}
	t.Logf("%d answered, %d refused, %d bytes each, %d MiB resident at most", answered.Load(), refused.Load(), len(body),
		peak)
}
