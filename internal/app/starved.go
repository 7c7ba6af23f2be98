package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/history/incident"
	"sluice/internal/starvation"
	"sluice/internal/telemetry"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// starvedSpan is the time in seconds in which checks are watched. The node lacks CPU if more than one check of
	// starvedOf in it was late, and at least starvedLeast. It does so until that has not been true for starvedHold.
	starvedSpan, starvedOf, starvedLeast = 30, 100, 10
	starvedHold                          = 30 * time.Second
	// starvedLine is the shortest time between two log lines about late checks.
	starvedLine = time.Minute
	// starvedAdvice is what operators can do.
	starvedAdvice = "this node lacks CPU: raise its CPU limit"
)

// nodeStarved has separate log lines, which count the checks.
var nodeStarved = trouble.Declare(trouble.Condition{Code: incident.CodeStarved, Incident: incident.Starved,
	Severe: true})

// starvedWatch notes when this node lacks CPU.
type starvedWatch struct {
	// counts are the operations so far and how many of them were starved, delay99 is the scheduling delay.
	counts  func() (operations, starved int64)
	delay99 func() time.Duration
	trouble *trouble.Registry
	log     *slog.Logger
	now     func() time.Time

	// Only look uses these: the counts at the last seconds, the oldest first; when the node last lacked CPU; the last log
	// line, and how many checks had been starved then.
	was      [starvedSpan + 1]starvedCounts
	met      time.Time
	logged   time.Time
	reported int64
}

type starvedCounts struct{ checks, late int64 }

// openMeter starts the meter of the time in which this process is not run.
func openMeter(metrics prometheus.Registerer, stops *stops) *starvation.Meter {
	meter := starvation.New()
	meter.Register(metrics)
	stops.add("meter of scheduling delays", task(meter.Run))
	return meter
}

// lostNow returns what counts the time that this process lost, up to now. It keeps the meter from pausing.
func lostNow(meter *starvation.Meter) func() time.Duration {
	return func() time.Duration {
		meter.Lost()
		return meter.Refresh()
	}
}

// openStarvedWatch starts what tells that this node lacks CPU.
func openStarvedWatch(host *Host, meter *starvation.Meter, metrics *telemetry.Metrics, stops *stops) {
	w := &starvedWatch{counts: metrics.Starved, delay99: meter.Delay99, trouble: host.trouble, log: host.Log,
		now: host.Now}
	stops.add("watch for a lack of CPU", task(func(ctx context.Context) {
		for range tick.Every(ctx, time.Second) {
			w.look()
		}
	}))
}

// look compares the counts with earlier ones. It is called once a second.
func (w *starvedWatch) look() {
	now := w.now()
	copy(w.was[:], w.was[1:])
	last := &w.was[starvedSpan]
	last.checks, last.late = w.counts()
	w.report(now, last.late)
	checks, late := last.checks-w.was[0].checks, last.late-w.was[0].late
	if late >= starvedLeast && late*starvedOf > checks {
		w.met = now
	}
	if w.met.IsZero() || now.Sub(w.met) >= starvedHold {
		w.trouble.Clear(nodeStarved, "")
		return
	}
	w.trouble.Set(trouble.Trouble{Condition: nodeStarved, Since: now, Cause: starvedAdvice,
		Numbers: map[string]int64{"late": late, "checks": checks}})
}

// report writes a line about checks that were late since the last line.
func (w *starvedWatch) report(now time.Time, late int64) {
	if late == w.reported || !w.logged.IsZero() && now.Sub(w.logged) < starvedLine {
		return
	}
	w.log.Warn("checks were late because this process was not run for longer than the store timeout",
		"checks", late-w.reported, "scheduling_delay", w.delay99().Round(time.Millisecond).String(),
		"advice", starvedAdvice, "more", "counted in sluice_starved_total")
	w.logged, w.reported = now, late
}
