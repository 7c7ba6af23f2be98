package app

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/internal/history/incident"
	"sluice/limiter"
)

// outageLogInterval is the shortest time between two log lines with the same cause about a store.
const outageLogInterval = 10 * time.Second

// outageLog logs why the counter store could not decide, and why a queue could not take
// a request, each cause at most once an interval.
type outageLog struct {
	decide.NopObserver
	log *slog.Logger
	now func() time.Time
	// incidents receives failures and the decisions of fail modes.
	incidents *incident.Log
	// When the last line was written, ms: about each cause (limiter.Cause to *atomic.Int64), and about queues.
	causes    sync.Map
	lastQueue atomic.Int64
}

// due reports whether outageLogInterval has passed since the last line. If so, it begins the next interval.
func (o *outageLog) due(last *atomic.Int64) bool {
	now, before := o.now().UnixMilli(), last.Load()
	return now-before >= outageLogInterval.Milliseconds() && last.CompareAndSwap(before, now)
}

// ObserveDeferral logs why a queue was unavailable.
func (o *outageLog) ObserveDeferral(d decide.Deferral) {
	if d.Err != nil && o.due(&o.lastQueue) {
		line := "the queue of deferred requests is unavailable; requests are denied instead"
		if d.What == decide.DeferralUnknown {
			line = "the queue of deferred requests does not answer; whether requests are deferred is unknown"
		}
		o.log.Warn(line, "rule", d.Rule, "error", d.Err)
	}
}

// ObserveDegraded logs the cause, unless it has logged the same one within the interval. A client that closed the
// request is no error of the store, and starvedWatch logs that a node lacks CPU.
func (o *outageLog) ObserveDegraded(d decide.Degraded) {
	if d.Cause == limiter.CauseCanceled || d.Cause == limiter.CauseStarved {
		return
	}
	if d.FailMode != "" && d.Cause.OfStore() {
		o.incidents.Failed(causeWords(d.Cause))
	}
	last, known := o.causes.Load(d.Cause)
	if !known {
		last, _ = o.causes.LoadOrStore(d.Cause, new(atomic.Int64))
	}
	if last, ok := last.(*atomic.Int64); !ok || !o.due(last) {
		return
	}
	line := "the counter store could not decide; fail modes apply"
	if !d.Cause.OfStore() {
		line = "more checks arrive than can be decided in time"
	}
	o.log.Warn(line, "cause", string(d.Cause), "advice", advice[d.Cause],
		"more", "counted in sluice_degraded_total")
}

// advice tells operators how to resolve each cause.
var advice = map[limiter.Cause]string{
	limiter.CauseTimeout: "check Redis's load (SLOWLOG, LATENCY DOCTOR) and the network; SLUICE_STORE_TIMEOUT is " +
		"how long a check waits",
	limiter.CauseConnection: "check that Redis is running and that REDIS_URL is correct",
	limiter.CauseHome: "the home region of a key does not answer or decide; an earlier log line and " +
		"sluice_region_calls_total say why",
	limiter.CauseBusy: "a script of another client blocks Redis (see SCRIPT KILL), or more checks arrive than " +
		"Redis can process",
	limiter.CauseOverload: "add nodes; if Redis uses all of its CPU, add shards",
	limiter.CauseReadOnly: "this Redis server is a replica or refuses writes (a failed save, too few replicas); see " +
		"INFO replication and INFO persistence",
	limiter.CauseLoading: "Redis is loading its data; it recovers without help",
	limiter.CauseMemory:  "raise Redis's maxmemory, or find out what fills it",
	limiter.CauseAuth: "check the user and password in REDIS_URL and the user's permissions (ACL LOG); " +
		"docs/operations.md lists those that a node needs",
	limiter.CauseCluster:   "a slot is not served; see CLUSTER INFO",
	limiter.CauseWrongType: "another program writes to keys that begin with SLUICE_KEY_PREFIX",
	limiter.CauseBadState:  "another program writes to keys that begin with SLUICE_KEY_PREFIX",
	limiter.CauseBreaker:   "an earlier log line says why the circuit breaker opened",
}
