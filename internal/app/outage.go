package app

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// outagePause is the least time between two log lines about the counter store.
const outagePause = 10 * time.Second

// outageLog tells the log, now and then, why the counter store could not decide.
type outageLog struct {
	decide.NopObserver
	log  *slog.Logger
	now  func() time.Time
	last atomic.Int64 // when the last line was written, ms; 0 for never
}

// ObserveDegraded logs unless it has just done so, or the caller went away, which
// is not the store's doing.
func (o *outageLog) ObserveDegraded(d decide.Degraded) {
	if d.Cause == limiter.CauseCanceled {
		return
	}
	now, last := o.now().UnixMilli(), o.last.Load()
	if now-last < outagePause.Milliseconds() || !o.last.CompareAndSwap(last, now) {
		return
	}
	o.log.Warn("the counter store could not decide; fail modes apply", "cause", string(d.Cause), "advice", advice[d.Cause], "more", "counted in sluice_degraded_total")
}

// advice says what an operator can do about a cause.
var advice = map[limiter.Cause]string{
	limiter.CauseTimeout:    "check Redis's load (SLOWLOG, LATENCY DOCTOR) and the network; SLUICE_STORE_TIMEOUT is how long a check waits",
	limiter.CauseConnection: "check that Redis is running and that REDIS_URL is correct",
	limiter.CauseBusy:       "a script of another client blocks Redis (see SCRIPT KILL), or more checks arrive than Redis can process",
	limiter.CauseReadOnly:   "this Redis server is a replica or refuses writes (a failed save, too few replicas); see INFO replication and INFO persistence",
	limiter.CauseLoading:    "Redis is loading its data; it recovers without help",
	limiter.CauseMemory:     "raise Redis's maxmemory, or find out what fills it",
	limiter.CauseAuth:       "check the user and password in REDIS_URL and the user's permissions (ACL LOG); it needs eval, evalsha, hello and ping on its keys",
	limiter.CauseCluster:    "a slot is not served; see CLUSTER INFO",
	limiter.CauseWrongType:  "another program writes to keys that begin with SLUICE_KEY_PREFIX",
	limiter.CauseBadState:   "another program writes to keys that begin with SLUICE_KEY_PREFIX",
	limiter.CauseBreaker:    "an earlier log line says why the circuit breaker opened",
}

// breakerLog tells when the breaker of a server opens and closes, at most one
// outage a server within outagePause.
type breakerLog struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	nodes map[string]*toldOutage
}

type toldOutage struct {
	opened time.Time // when the last line about it was written
	open   bool      // and its end is still to be told
	since  time.Time
}

// changed hears of every change of a breaker.
func (b *breakerLog) changed(c redisstore.BreakerChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes == nil {
		b.nodes = map[string]*toldOutage{}
	}
	now, told := b.now(), b.nodes[c.Node]
	if told == nil {
		told = &toldOutage{}
		b.nodes[c.Node] = told
	}
	switch c.To {
	case redisstore.BreakerOpen:
		if told.open || !told.opened.IsZero() && now.Sub(told.opened) < outagePause {
			return
		}
		told.opened, told.open, told.since = now, true, now
		b.log.Error("the circuit breaker of a Redis server opened; fail modes decide",
			"node", c.Node, "cause", string(c.Cause), "error", c.Err, "advice", advice[c.Cause])
	case redisstore.BreakerClosed:
		if told.open {
			told.open = false
			b.log.Info("a Redis server is available again; its circuit breaker closed",
				"node", c.Node, "after", now.Sub(told.since).Round(time.Millisecond).String())
		}
	}
}
