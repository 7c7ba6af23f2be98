package sense

import (
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/limiter"
	"sluice/rules"
)

const (
	// conditionAgain is how often a condition of a node is reported while it lasts, slack how much later a report may be.
	conditionAgain = time.Minute
	slack          = 30 * time.Second
	// failSpan is the time in seconds in which fail modes are watched. They are engaged if they decided failMany requests
	// in it, or any in failSeconds different seconds of it: a single slow answer is no alert. They stay engaged until they
	// decided nothing in it, and for failLinger.
	failSpan, failMany, failSeconds = 10, 10, 3
	failLinger                      = 5 * time.Second
)

// Condition is one that is met on this node now.
type Condition struct {
	Subject alerts.Subject
	evaluate.Details
	// Linger is how long it must not be met until it is over.
	Linger time.Duration
}

// metCondition is a condition that was reported.
type metCondition struct {
	Condition
	last, reported time.Time
}

// sighting is what is reported of a condition.
func (c *Condition) sighting(state string) evaluate.Sighting {
	out := evaluate.Sighting{Subject: c.Subject, State: state, LifeMS: (2*conditionAgain + slack).Milliseconds()}
	if state == alerts.On {
		out.Details = c.Details
	}
	return out
}

// watch reports which conditions begin, last and are over.
func (s *Sensor) watch(now time.Time) {
	met := s.opt.Conditions()
	if c, on := s.fails.engaged(s.opt.Cause); on {
		met = append(met, c)
	}
	for i := range met {
		c := &met[i]
		known := s.met[c.Subject]
		if known == nil {
			known = &metCondition{}
			s.met[c.Subject] = known
		}
		known.Condition, known.last = *c, now
		if known.reported.IsZero() || now.Sub(known.reported) >= conditionAgain {
			s.add(c.sighting(alerts.On), now)
			known.reported = now
		}
	}
	for subject, c := range s.met {
		if !c.last.Equal(now) && now.Sub(c.last) >= c.Linger {
			s.add(c.sighting(alerts.Off), now)
			delete(s.met, subject)
		}
	}
}

// leaveConditions reports, before the node stops, that its conditions are over.
func (s *Sensor) leaveConditions(now time.Time) {
	for subject, c := range s.met {
		s.add(c.sighting(alerts.Off), now)
		delete(s.met, subject)
	}
}

// fails counts what fail modes decide.
type fails struct {
	open, local, closed atomic.Int64
	cause               atomic.Pointer[limiter.Cause]
	// was are the counts at the last seconds, the oldest first, and on whether fail modes were engaged. Only watch uses
	// them.
	was [failSpan + 1]failCounts
	on  bool
}

type failCounts struct{ open, local, closed int64 }

func (c failCounts) sum() int64 { return c.open + c.local + c.closed }

// decided counts a request.
func (f *fails) decided(mode string) {
	switch mode {
	case rules.FailOpen:
		f.open.Add(1)
	case rules.FailLocal:
		f.local.Add(1)
	case rules.FailClosed:
		f.closed.Add(1)
	}
}

// failed notes why the store could not decide.
func (f *fails) failed(d *decide.Degraded) {
	if d.FailMode == "" || d.Cause == limiter.CauseCanceled || d.Cause == limiter.CauseBreaker || !d.Cause.OfStore() {
		return // an earlier cause says why a breaker is open
	}
	if last := f.cause.Load(); last == nil || *last != d.Cause {
		cause := d.Cause
		f.cause.Store(&cause)
	}
}

// engaged reports whether fail modes decide. It is called once a second.
func (f *fails) engaged(words func(limiter.Cause) string) (Condition, bool) {
	copy(f.was[:], f.was[1:])
	f.was[failSpan] = failCounts{f.open.Load(), f.local.Load(), f.closed.Load()}
	first, last, inSeconds := f.was[0], f.was[failSpan], 0
	for i := 1; i <= failSpan; i++ {
		if f.was[i].sum() > f.was[i-1].sum() {
			inSeconds++
		}
	}
	f.on = inSeconds > 0 && (f.on || last.sum()-first.sum() >= failMany || inSeconds >= failSeconds)
	if !f.on {
		return Condition{}, false
	}
	c := Condition{Subject: alerts.Subject{Kind: alerts.KindFailModeEngaged}, Linger: failLinger}
	c.Numbers = map[string]int64{"open": last.open - first.open, "local": last.local - first.local,
		"closed": last.closed - first.closed}
	if cause := f.cause.Load(); cause != nil {
		c.Cause = words(*cause)
	}
	return c, true
}
