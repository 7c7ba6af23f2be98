package evaluate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

// Store is the rule database. Errors are alerts.ErrLeaseLost or wrap rules.ErrUnavailable. It is safe for concurrent
// use.
type Store interface {
	// HoldAlerts takes or renews the lease for a while and reports whether holder has it.
	HoldAlerts(ctx context.Context, holder string, length time.Duration) (bool, error)
	ReleaseAlerts(ctx context.Context, holder string) error
	// AlertReports returns up to limit reports that were not read, oldest first.
	AlertReports(ctx context.Context, limit int) ([]alerts.Report, error)
	AlertStates(ctx context.Context) ([]alerts.State, error)
	// SaveAlerts stores changes in one transaction if holder still has the lease.
	SaveAlerts(ctx context.Context, holder string, c *alerts.Changes) error
}

// Deliverer sends messages that are stored.
type Deliverer interface {
	// Run sends what is due while holder has the lease, until ctx ends.
	Run(ctx context.Context, holder string)
	// Wake says that there are new messages. It never blocks.
	Wake()
}

const (
	// evaluateEvery is how often alerts are evaluated.
	evaluateEvery = time.Second
	// compareEvery is how often the states are compared with the stored states. The database may have been replaced
	// since the last evaluation by an older copy.
	compareEvery = 5 * time.Second
	// callTimeout bounds a call of the store, factsTimeout gathering the facts.
	callTimeout  = 3 * time.Second
	factsTimeout = 4 * time.Second
	// releaseTimeout bounds the release of the lease at shutdown.
	releaseTimeout = time.Second
	// maxRead is how many reports an evaluation reads.
	maxRead = 1000
)

// RunnerOptions configure a Runner.
type RunnerOptions struct {
	Store Store
	// Holder names this node; no other node has the name.
	Holder string
	// Lease is how long a lease is taken for. It is renewed three times in that time.
	Lease time.Duration
	// Facts gathers the facts except Now, Quiet and Reports. Nothing is evaluated after an error.
	Facts func(context.Context) (Facts, error)
	// Deliver sends the messages while the node holds the lease.
	Deliver Deliverer
	// Quiet is how long after an alert further ones about its subject are only counted.
	Quiet   time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	Trouble *trouble.Registry // nil discards
}

var (
	leaseUnknown = trouble.Declare(trouble.Condition{Code: "alert_lease_unknown",
		Advice: "see whether the rules database answers; alerts go on when it does",
		Starts: "the lease of alerts cannot be renewed; alerts wait", Ends: "the lease of alerts can be renewed again"})
	unevaluated = trouble.Declare(trouble.Condition{Code: "alerts_unevaluated",
		Advice: "see whether the rules database and Redis answer; alerts go on when they do",
		Starts: "alerts cannot be evaluated; they wait", Ends: "alerts are evaluated again"})
	unread = trouble.Declare(trouble.Condition{Code: "alerts_unread",
		Advice: "see whether the rules database answers",
		Starts: "the alerts that are on cannot be read; the console shows the last known ones",
		Ends:   "the alerts that are on can be read again"})
)

// Runner evaluates alerts while this node holds the lease. Run it in one goroutine.
type Runner struct {
	opt RunnerOptions
	// until is when the lease ends unless it is renewed, by the clock of this node; the zero time without a lease.
	until time.Time
	// stop ends what runs under the lease, and waits for it; nil without a lease.
	stop func()

	held atomic.Bool
	// evaluated is when an evaluation was last stored, ms since the epoch; 0 for never under this lease.
	evaluated atomic.Int64
	counts    runnerCounts
	// compared is when the states were last read from the store.
	compared time.Time
	// saved are the states that this node stored last, nil once another node may have changed them.
	saved *States
}

// runnerCounts are counts since the start of the node.
type runnerCounts struct {
	mu                           sync.Mutex
	ignored                      map[alerts.Kind]int64
	unreadable, events, messages int64
}

// RunnerStats are for metrics.
type RunnerStats struct {
	// Held: this node evaluates.
	Held bool
	// Age is the time since an evaluation was last stored, 0 if this node does not evaluate.
	Age time.Duration
	// Ignored are sightings beyond the bound of subjects, by kind; Unreadable are reports that this build does not
	// understand; Events and Messages are what was stored.
	Ignored                      map[alerts.Kind]int64
	Unreadable, Events, Messages int64
}

// NewRunner creates a Runner.
func NewRunner(opt RunnerOptions) *Runner {
	return &Runner{opt: opt, counts: runnerCounts{ignored: map[alerts.Kind]int64{}}}
}

// Run tries to hold the lease until ctx ends, and evaluates and delivers while it holds it. It then releases the lease,
// so that another node takes over at once.
func (r *Runner) Run(ctx context.Context) {
	defer r.leave(ctx)
	r.hold(ctx)
	for range tick.Every(ctx, r.opt.Lease*3/10) {
		r.hold(ctx)
	}
}

// hold takes or renews the lease.
func (r *Runner) hold(ctx context.Context) {
	asked := r.opt.Now()
	wait := r.opt.Lease * 3 / 10
	if r.stop != nil {
		wait = min(wait, r.until.Sub(asked))
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	held, err := r.opt.Store.HoldAlerts(limited, r.opt.Holder, r.opt.Lease)
	cancel()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		r.opt.Trouble.Note(leaseUnknown, "", err)
		if r.stop != nil && !r.opt.Now().Before(r.until) {
			r.lose("the rules database does not answer")
		}
		return
	case !held:
		r.opt.Trouble.Clear(leaseUnknown, "")
		if r.stop != nil {
			r.lose("another node has taken it")
		}
		r.saved = nil
		return
	}
	r.opt.Trouble.Clear(leaseUnknown, "")
	r.until = asked.Add(r.opt.Lease)
	if r.stop == nil {
		r.opt.Log.Info("this node evaluates alerts now")
		r.begin(ctx)
	}
}

// begin starts what runs under the lease.
func (r *Runner) begin(ctx context.Context) {
	under, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.lead(under) })
	running.Go(func() { r.opt.Deliver.Run(under, r.opt.Holder) })
	r.evaluated.Store(r.opt.Now().UnixMilli())
	r.held.Store(true)
	r.stop = func() {
		cancel()
		running.Wait()
	}
}

// lose stops what runs under the lease.
func (r *Runner) lose(why string) {
	r.end()
	r.opt.Log.Info("this node evaluates alerts no longer", "why", why)
}

func (r *Runner) end() {
	r.stop()
	r.stop = nil
	r.held.Store(false)
}

// leave gives the lease back.
func (r *Runner) leave(ctx context.Context) {
	if r.stop == nil {
		return
	}
	r.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.opt.Store.ReleaseAlerts(ctx, r.opt.Holder); err != nil {
		r.opt.Log.Warn("could not release the lease of alerts; it expires", "error", err)
	}
}

// lead evaluates until ctx ends.
func (r *Runner) lead(ctx context.Context) {
	defer r.opt.Trouble.Forget(unevaluated, "")
	var states *States
	evaluate := func() {
		if err := r.evaluate(ctx, &states); ctx.Err() == nil && !errors.Is(err, alerts.ErrLeaseLost) {
			r.opt.Trouble.Note(unevaluated, "", err)
		}
	}
	evaluate()
	for range tick.Every(ctx, evaluateEvery) {
		evaluate()
	}
}

// evaluate evaluates once. After an error the states are read from the store again: nobody knows what it has.
func (r *Runner) evaluate(ctx context.Context, states **States) (err error) {
	defer func() {
		if err != nil {
			*states = nil
		}
	}()
	call := func(f func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return f(limited)
	}
	if now := r.opt.Now(); *states == nil || now.Sub(r.compared) >= compareEvery {
		r.compared = now
		var stored []alerts.State
		if err := call(func(ctx context.Context) error {
			stored, err = r.opt.Store.AlertStates(ctx)
			return err
		}); err != nil {
			return err
		}
		database := LoadStates(stored, now)
		switch {
		case *states != nil:
			(*states).compare(database)
		case r.saved != nil:
			database.adopt(r.saved)
			fallthrough
		default:
			*states = database
		}
	}
	limited, cancel := context.WithTimeout(ctx, factsTimeout)
	facts, err := r.opt.Facts(limited)
	cancel()
	if err != nil {
		return err
	}
	if err := call(func(ctx context.Context) error {
		facts.Reports, err = r.opt.Store.AlertReports(ctx, maxRead)
		return err
	}); err != nil {
		return err
	}
	facts.Now, facts.Quiet = r.opt.Now(), r.opt.Quiet
	result := Evaluate(*states, &facts)
	if c := &result.Changes; len(c.States)+len(c.Read)+len(c.Events)+len(c.Messages) > 0 {
		if err := call(func(ctx context.Context) error {
			return r.opt.Store.SaveAlerts(ctx, r.opt.Holder, c)
		}); err != nil {
			return err
		}
	}
	*states, r.saved = result.States, result.States
	r.evaluated.Store(facts.Now.UnixMilli())
	r.counts.add(&result)
	if len(result.Changes.Messages) > 0 {
		r.opt.Deliver.Wake()
	}
	return nil
}

func (c *runnerCounts) add(result *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind, n := range result.Counts.Ignored {
		c.ignored[kind] += n
	}
	c.unreadable += result.Counts.Unreadable
	c.events += int64(len(result.Changes.Events))
	c.messages += int64(len(result.Changes.Messages))
}

// Stats returns figures for metrics. It is safe for concurrent use.
func (r *Runner) Stats() RunnerStats {
	c := &r.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	out := RunnerStats{Held: r.held.Load(), Ignored: map[alerts.Kind]int64{}, Unreadable: c.unreadable, Events: c.events,
		Messages: c.messages}
	for kind, n := range c.ignored {
		out.Ignored[kind] = n
	}
	if out.Held {
		out.Age = max(0, r.opt.Now().Sub(time.UnixMilli(r.evaluated.Load())))
	}
	return out
}
