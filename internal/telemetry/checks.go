package telemetry

import (
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
	times fewHandles[checkKind, *latency]
	// callers counts the requests that callers have decided, of which there are no times.
	callers struct{ allowed, denied atomic.Int64 }
}

// checkKind distinguishes the kinds of checks that are counted separately. Its values come from bounded lists. The
// fields that differ most often come first, because kinds are compared in a row.
type checkKind struct {
	op       limiter.Op
	allowed  bool
	failMode bool // a fail mode decided
	// outcome and by have the same meaning as in decide.Decision.
	outcome, by string
}

// observe counts one operation.
func (c *checks) observe(d *decide.Decision) {
	a := d.Answer
	kind := checkKind{op: a.Op, allowed: a.Verdict == decide.Allowed,
		failMode: decide.ByFailMode(a.Degraded) || a.Verdict == decide.Unavailable, outcome: d.Outcome, by: d.By}
	c.times.get(kind, func(checkKind) *latency { return new(latency) }).observe(d.Took, 1)
}

var (
	checkDuration = prometheus.NewDesc("sluice_check_duration_seconds",
		"Time from a decoded request to its decision, by operation and outcome.", []string{"op", "outcome"}, nil)
	objectiveChecks = prometheus.NewDesc("sluice_objective_checks_total",
		"Takes to which an enforced limit applied, by result: met (answered by the limit within 25 ms), late (after that), "+
			"fail_mode (answered by a fail mode), overloaded (denied because the counter store had no "+
			"turn for them).", []string{"result"}, nil)
	accountRequests = prometheus.NewDesc("sluice_account_requests_total",
		"Takes and charges with at least one enforced limit, by outcome (admitted, denied, replayed, overloaded) and by "+
			"what decided (store, limit, the fail mode, the overload, or the caller).", []string{"outcome", "by"}, nil)
)

// Starved returns the number of operations since the start, and how many of them sluice_starved_total counts.
func (m *Metrics) Starved() (operations, starved int64) {
	for _, s := range m.checks.times.all() {
		var now durations
		now.add(s.of)
		all, _ := now.count(objectiveTime)
		operations += all
	}
	return operations, m.starved.Load()
}

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
	var met, late, failMode, overloaded int64
	for _, s := range c.times.all() {
		kind := s.key
		var now durations
		now.add(s.of)
		of := label{kind.op, kind.allowed}
		if times[of] == nil {
			times[of] = new(durations)
		}
		times[of].join(&now)
		if kind.outcome == "" {
			continue
		}
		all, within := now.count(objectiveTime)
		requests[[2]string{kind.outcome, kind.by}] += all
		switch {
		case kind.op != limiter.OpTake:
		case kind.outcome == decide.OutcomeOverloaded:
			overloaded += all
		case kind.failMode:
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
	requests[[2]string{decide.OutcomeAdmitted, decide.ByCaller}] = c.callers.allowed.Load()
	requests[[2]string{decide.OutcomeDenied, decide.ByCaller}] = c.callers.denied.Load()
	for v, n := range requests {
		counter(accountRequests, n, v[0], v[1])
	}
	counter(objectiveChecks, met, "met")
	counter(objectiveChecks, late, "late")
	counter(objectiveChecks, failMode, "fail_mode")
	counter(objectiveChecks, overloaded, "overloaded")
}
