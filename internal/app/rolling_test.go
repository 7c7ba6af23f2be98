package app

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A balancer that honours /readyz and Connection: close loses no request when a
// node is asked to stop.
func TestRollingRestart_FailsNoRequest(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.DrainDelay = 500 * time.Millisecond
	leaving, staying := start(t, cfg), start(t, settings(t))

	var target atomic.Pointer[node]
	target.Store(leaving)
	stop, onLeaving := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var served atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := target.Load()
				n.check(plenty) // reports anything but a decision
				served.Add(1)
				if n == leaving {
					once.Do(func() { close(onLeaving) })
				}
			}
		})
	}
	<-onLeaving
	leaving.cancel()
	eventually(t, "the balancer sees the node leave", func() bool {
		status, _ := leaving.send(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	target.Store(staying)
	leaving.stop()
	before := served.Load()
	eventually(t, "the other node serves", func() bool { return served.Load() > before+20 })
	close(stop)
	wg.Wait()
}
