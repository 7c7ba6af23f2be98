package decide

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// DefaultTimeout is how long a store may take over a check when nothing else
// is set.
const DefaultTimeout = 25 * time.Millisecond

// ErrNoSet says that no set of rules has been loaded yet, so that a request
// cannot be matched. Direct checks do not need one.
var ErrNoSet = errors.New("no rules are loaded yet")

// CheckerOptions configures a Checker.
type CheckerOptions struct {
	// Sets holds the set in force. Required.
	Sets *rules.Current
	// Store keeps the buckets. Required.
	Store limiter.Store
	// Local decides limits with fail mode local while Store cannot. It must not
	// be Store itself. Nil: such limits fail open.
	Local limiter.Store
	// Ledger, which must have Local as its local store, lets those limits start
	// warm, divides them among the nodes and remembers what they admitted. Nil:
	// each node enforces the whole limit, starting empty.
	Ledger *Ledger
	// Timeout bounds the store's part of a request; 0 means DefaultTimeout, less
	// than 0 no bound beyond the caller's own.
	Timeout time.Duration
	// Secrets seal reservations; nil: none are given.
	Secrets Secrets
	// Deferred keeps requests that may pass later; nil: none are deferred.
	Deferred Queue
	// Now is the wall clock, used for durations and for what rules say about
	// time; buckets go by the store's. Required.
	Now func() time.Time
	// Observe hears every decision; nil hears nothing.
	Observe Observer
	// Loads holds what the fleet reports about pools. Nil: reports are kept in
	// this Checker only.
	Loads *Loads
	// Rand draws uniformly from 0 to n-1, for the jitter of retry-after; it is
	// safe for concurrent use. Nil: the random source of the runtime.
	Rand func(n int64) int64
}

// Checker decides questions: it finds the limits that apply, asks the store
// about all of them at once, and lets each limit's fail mode decide when the
// store cannot. It does not know which face a question came through. It is safe
// for concurrent use and owns no goroutine.
type Checker struct {
	opt CheckerOptions
}

// NewChecker makes a Checker. It fails only if a required option is missing.
func NewChecker(opt CheckerOptions) (*Checker, error) {
	if opt.Sets == nil || opt.Store == nil || opt.Now == nil {
		return nil, errors.New("checker: Sets, Store and Now are required")
	}
	if opt.Timeout == 0 {
		opt.Timeout = DefaultTimeout
	}
	if opt.Observe == nil {
		opt.Observe = NopObserver{}
	}
	if opt.Loads == nil {
		opt.Loads = NewLoads(nil, opt.Now)
	}
	if opt.Rand == nil {
		opt.Rand = rand.Int64N
	}
	return &Checker{opt: opt}, nil
}

// Do answers one question. On a take or a peek there is always an answer,
// whatever the store does, unless the rules are needed and none were ever
// loaded (ErrNoSet). The other operations are carried out by the store or not
// at all; their error is then the store's, a *limiter.StoreError.
func (c *Checker) Do(ctx context.Context, q *Question, a *Answer) error {
	w := getWork()
	defer putWork(w)
	start := c.opt.Now()
	if err := w.add(ctx, q, c.opt.Sets.Load(), start); err != nil {
		return err
	}
	c.run(ctx, w)
	err := c.settle(ctx, w, &w.jobs[0], a)
	if err == nil {
		c.tell(w, &w.jobs[0], a, c.opt.Now().Sub(start))
	}
	return err
}

// DoAll answers many takes or peeks, each by itself, with one call of the store.
// as has the length of qs. All of them see the same set. The error is ErrNoSet,
// or that of ctx if the caller left before the store was asked: then nothing is spent.
func (c *Checker) DoAll(ctx context.Context, qs []Question, as []Answer) error {
	w := getWork()
	defer putWork(w)
	start := c.opt.Now()
	set := c.opt.Sets.Load()
	for i := range qs {
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err
		}
		if err := w.add(ctx, &qs[i], set, start); err != nil {
			return err
		}
	}
	c.run(ctx, w)
	for i := range qs {
		if err := c.settle(ctx, w, &w.jobs[i], &as[i]); err != nil {
			return err
		}
	}
	took := c.opt.Now().Sub(start)
	for i := range as {
		c.tell(w, &w.jobs[i], &as[i], took)
	}
	return nil
}

// run makes the one call of the store, and a second one for what elastic limits
// may let through after all.
func (c *Checker) run(ctx context.Context, w *work) {
	calls := w.calls
	if c.opt.Timeout > 0 && len(calls) > 0 {
		b := within(ctx, c.opt.Timeout)
		defer b.release()
		ctx = b
	}
	switch len(calls) {
	case 0:
	case 1:
		calls[0].Err = c.opt.Store.Do(ctx, &calls[0].Request, &calls[0].Result)
	default:
		c.opt.Store.DoAll(ctx, calls)
	}
	if w.above {
		c.goAbove(ctx, w)
	}
}

// Set gives the rules in force, nil if none were ever loaded.
func (c *Checker) Set() *rules.Set { return c.opt.Sets.Load() }

// settle turns what the store said of one job into its answer.
func (c *Checker) settle(ctx context.Context, w *work, j *job, a *Answer) error {
	q := j.q
	a.begin(q.Op)
	calls := w.calls[j.from:j.to]
	if j.enforced > 0 {
		main := &calls[0]
		calls = calls[1:]
		switch {
		case main.Err == nil:
			a.decided(w, j, main)
			c.opt.Ledger.mirror(w.limits[j.first:j.first+j.enforced], main)
		case (q.Op == limiter.OpTake || q.Op == limiter.OpPeek) && !q.strict:
			c.degrade(ctx, a, w.limits[j.first:j.first+j.enforced], main)
		default:
			c.undecided(main.Err)
			if q.Op == limiter.OpCharge || q.Op == limiter.OpTake {
				c.doubt(rules.ModeEnforce, q.Op, w.limits[j.first:j.first+j.enforced], main.Err)
			}
			return main.Err
		}
	}
	if !a.Allowed() && jittery(q.Op) {
		c.jitter(a, w.limits[j.first:j.first+j.enforced])
	}
	c.settleShadow(a, w.limits[j.first+j.enforced:j.end], calls)
	if q.Op == limiter.OpTake && a.Allowed() && j.leases {
		a.Lease = leaseToken(w, j, a)
	}
	if q.secret != nil && a.Allowed() && a.Degraded == "" {
		a.Reservation = c.reserved(w, j, a)
	}
	if q.Deferrable && !a.Allowed() {
		c.postpone(ctx, q, w.limits[j.first:j.first+j.enforced], a)
	}
	c.account(w, j, a)
	return nil
}

// tell tells the observer about an answer to a question.
func (c *Checker) tell(w *work, j *job, a *Answer, took time.Duration) {
	w.told = Decision{Question: j.q, Answer: a, Took: took, Outcome: j.outcome, By: j.by}
	c.opt.Observe.ObserveDecision(&w.told)
}

// undecided tells the observer that the store failed where no fail mode decides.
func (c *Checker) undecided(err error) {
	c.opt.Observe.ObserveDegraded(Degraded{Cause: limiter.CauseOf(err)})
}
