package app

import (
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/internal/telemetry"
	"sluice/limiter"
)

// outagePause is the least time between two log lines about the counter store.
const outagePause = 10 * time.Second

// observer counts what was decided and tells the log, now and then, why the
// counter store could not.
type observer struct {
	*telemetry.Metrics
	log  *slog.Logger
	now  func() time.Time
	last atomic.Int64 // when the last line was written, ms; 0 for never
}

// ObserveDegraded counts, and logs unless it has just done so, or the caller
// went away, which is not the store's doing.
func (o *observer) ObserveDegraded(failMode string, cause limiter.Cause) {
	o.Metrics.ObserveDegraded(failMode, cause)
	if cause == limiter.CauseCanceled {
		return
	}
	now, last := o.now().UnixMilli(), o.last.Load()
	if now-last < outagePause.Milliseconds() || !o.last.CompareAndSwap(last, now) {
		return
	}
	o.log.Warn("the counter store cannot decide; fail modes do", "cause", string(cause), "more", "counted in sluice_degraded_total")
}
