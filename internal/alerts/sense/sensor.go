package sense

import (
	"context"
	"strconv"
	"time"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/tick"
	"sluice/internal/trouble"
	"sluice/limiter"
)

const (
	// flushEvery is how often reports are stored, and conditions looked at.
	flushEvery = time.Second
	// flushTimeout bounds storing them.
	flushTimeout = 3 * time.Second
)

// Options configure a Sensor.
type Options struct {
	Store interface {
		// AddAlertReports stores reports. It ignores a report whose UID is known.
		AddAlertReports(ctx context.Context, reports []alerts.Report) error
	}
	// Node names this process, Address is where it listens ("" before it does).
	Node    string
	Address func() string
	// Conditions returns the active conditions of this node. It is called once a second and must not block.
	Conditions func() []Condition
	// Cause returns a text for people that says why the counter store could not decide.
	Cause   func(limiter.Cause) string
	Now     func() time.Time
	Trouble *trouble.Registry // nil discards
}

var unreported = trouble.Declare(trouble.Condition{Code: "alerts_unreported",
	Advice: "see whether the rules database answers; the node reports them when it does",
	Starts: "alerts of this node cannot be reported to the rules database; they wait in memory",
	Ends:   "alerts of this node are reported to the rules database again"})

// Sensor observes decisions and reports what is worth an alert. Its methods but Run are safe for concurrent use.
type Sensor struct {
	decide.NopObserver
	opt    Options
	usage  *usage
	fails  fails
	buffer buffer
	counts counts
	met    map[alerts.Subject]*metCondition
}

// New creates a Sensor.
func New(opt Options) *Sensor {
	return &Sensor{opt: opt, usage: newUsage(), met: map[alerts.Subject]*metCondition{}}
}

// ObserveDecision observes the use of limits with notify levels, after each operation that changes it, and the
// decisions of fail modes.
func (s *Sensor) ObserveDecision(d *decide.Decision) {
	a := d.Answer
	decides := a.Op == limiter.OpTake || a.Op == limiter.OpCharge
	if decides && decide.ByFailMode(a.Degraded) && a.Cause.OfStore() {
		s.fails.decided(a.Degraded)
	}
	if a.Op == limiter.OpPeek || a.Replayed { // nothing has changed; the figures of a stored answer are old
		return
	}
	for i := range a.Limits {
		if la := &a.Limits[i]; la.Notify != nil {
			s.observe(la)
		}
	}
}

// ObserveDegraded notes why fail modes decide.
func (s *Sensor) ObserveDegraded(d decide.Degraded) { s.fails.failed(&d) }

// Run reports once a second until ctx ends, and then reports the end of the conditions of this node.
func (s *Sensor) Run(ctx context.Context) {
	for range tick.Every(ctx, flushEvery) {
		s.Tick(ctx)
	}
	now := s.opt.Now()
	s.leaveConditions(now)
	s.leaveUsage(now)
	s.flush(context.WithoutCancel(ctx))
}

// Tick checks the conditions and stores the reports. Run calls it once a second.
func (s *Sensor) Tick(ctx context.Context) {
	now := s.opt.Now()
	s.watch(now)
	s.sweepUsage(now)
	s.flush(ctx)
}

// flush stores the waiting reports. After a failure they wait for the next flush, with the same UIDs.
func (s *Sensor) flush(ctx context.Context) {
	waiting := s.buffer.first()
	if len(waiting) == 0 {
		return
	}
	reports := make([]alerts.Report, len(waiting))
	for i := range waiting {
		reports[i] = waiting[i].Report(s.opt.Node + "-" + strconv.FormatInt(waiting[i].Seq, 10))
	}
	limited, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := s.opt.Store.AddAlertReports(limited, reports)
	if ctx.Err() == nil {
		s.opt.Trouble.Note(unreported, "", err, "waiting", len(waiting))
	}
	if err != nil {
		return
	}
	for i := range waiting {
		s.counts.store(waiting[i].Subject.Kind, 1)
	}
	s.buffer.drop(len(waiting))
}

var _ decide.Observer = (*Sensor)(nil)
