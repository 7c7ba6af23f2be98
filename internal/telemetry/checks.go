package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/limiter"
)

// objectiveTime is how long a check may take to meet the objective. It is the bound of a cell of
// latency.
const objectiveTime = 25 * time.Millisecond

// checks counts operations and their times, once each: all that is served about requests as a whole
// is a sum of the same histograms. It is safe for concurrent use.
type checks struct {
	mu   sync.Mutex
	seen atomic.Pointer[[]checkSeries]
}

// checkSeries are the times of the operations of a kind.
type checkSeries struct {
	kind  checkKind
	times *latency
}

// checkKind is what is told apart. Its values are from bounded lists. The fields that differ most
// often come first, because kinds are compared in a row.
type checkKind struct {
	op       limiter.Op
	allowed  bool
	failMode bool // a fail mode decided
	// outcome and by are those of decide.Decision.
	outcome, by string
}

// observe counts one operation.
func (c *checks) observe(d *decide.Decision) {
	a := d.Answer
	c.times(checkKind{op: a.Op, allowed: a.Verdict == decide.Allowed,
		failMode: a.Degraded != "" || a.Verdict == decide.Unavailable, outcome: d.Outcome, by: d.By}).observe(d.Took, 1)
}

// times returns the histogram of a kind. A node sees few kinds, and the usual ones first, so that
// this is quicker than a map. Reading takes no lock.
func (c *checks) times(kind checkKind) *latency {
	if seen := c.seen.Load(); seen != nil {
		if l := find(*seen, kind); l != nil {
			return l
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var next []checkSeries
	if seen := c.seen.Load(); seen != nil {
		if l := find(*seen, kind); l != nil {
			return l
		}
		next = append(next, *seen...)
	}
	l := new(latency)
	next = append(next, checkSeries{kind, l})
	c.seen.Store(&next)
	return l
}

func find(seen []checkSeries, kind checkKind) *latency {
	for i := range seen {
		if seen[i].kind == kind {
			return seen[i].times
		}
	}
	return nil
}

var (
	checkDuration = prometheus.NewDesc("sluice_check_duration_seconds",
		"Time from a decoded request to its decision, by operation and outcome.", []string{"op", "outcome"}, nil)
	objectiveChecks = prometheus.NewDesc("sluice_objective_checks_total",
		"Takes to which an enforced limit applied, by result: met (answered by the limit within 25 ms), late (after that), "+
			"fail_mode (answered by a fail mode).", []string{"result"}, nil)
	accountRequests = prometheus.NewDesc("sluice_account_requests_total",
		"Takes and charges with at least one enforced limit, by outcome (admitted, denied, replayed) and by what decided "+
			"(store, limit, or the fail mode).", []string{"outcome", "by"}, nil)
)

// Describe implements prometheus.Collector.
func (c *checks) Describe(out chan<- *prometheus.Desc) {
	out <- checkDuration
	out <- objectiveChecks
	out <- accountRequests
}

// Collect implements prometheus.Collector.
func (c *checks) Collect(out chan<- prometheus.Metric) {
	type label struct {
		op      limiter.Op
		allowed bool
	}
	times := map[label]*durations{}
	requests := map[[2]string]int64{}
	for _, v := range verdicts {
		requests[v] = 0
	}
	var met, late, failMode int64
	seen := c.seen.Load()
	if seen == nil {
		seen = new([]checkSeries)
	}
	for _, s := range *seen {
		var now durations
		now.add(s.times)
		of := label{s.kind.op, s.kind.allowed}
		if times[of] == nil {
			times[of] = new(durations)
		}
		times[of].join(&now)
		if s.kind.outcome == "" {
			continue
		}
		all, within := now.count(objectiveTime)
		requests[[2]string{s.kind.outcome, s.kind.by}] += all
		switch {
		case s.kind.op != limiter.OpTake:
		case s.kind.failMode:
			failMode += all
		default:
			met, late = met+within, late+all-within
		}
	}
	counter := func(desc *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	for of, d := range times {
		out <- d.metric(checkDuration, of.op.String(), outcome(of.allowed))
	}
	for v, n := range requests {
		counter(accountRequests, n, v[0], v[1])
	}
	counter(objectiveChecks, met, "met")
	counter(objectiveChecks, late, "late")
	counter(objectiveChecks, failMode, "fail_mode")
}
