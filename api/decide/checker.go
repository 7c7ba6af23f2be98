package decide

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// DefaultTimeout is the time for a check unless another timeout is set.
const DefaultTimeout = 25 * time.Millisecond

// A sixth of the timeout, and at most maxReserve, is left for the fail modes and for the answer, so
// that the caller has that within the timeout. One millisecond of it is for timers: the runtime of
// Go waits for the network in whole milliseconds, so on an idle node they are up to that late.
const (
	reservePart = 6
	maxReserve  = 4 * time.Millisecond
)

// ErrNoSet means that no set of rules was loaded yet, so that a request cannot be matched.
// Direct checks need no set.
var ErrNoSet = errors.New("no rules are loaded yet")

// CheckerOptions configures a Checker.
type CheckerOptions struct {
	// Sets holds the set in force. Required.
	Sets *match.Current
	// Store keeps the buckets. Required.
	Store limiter.Store
	// Local decides limits with fail mode local while Store is unavailable. It must not be
	// Store itself. If nil, such limits fail open.
	Local limiter.Store
	// Ledger copies the consumption of these limits to Local, divides them among the nodes and
	// records what they admitted. Its local store must be Local. If nil, each node enforces the
	// whole limit and starts with empty buckets.
	Ledger *Ledger
	// Timeout is the time for a request. The store gets it less the reserve for the answer; see maxReserve. 0 means
	// DefaultTimeout, a negative value no bound except the deadline of the caller.
	Timeout time.Duration
	// Patience is how long a caller waits who does not say so, at most MaxPatience. 0 means DefaultPatience.
	Patience time.Duration
	// Secrets seal reservations. If nil, there are no reservations.
	Secrets Secrets
	// Open lists open reservations. If nil, they are not listed, not found by request id, and stay charged at their end.
	Open *OpenReservations
	// Lost is the time that this process was not run, since it started; it grows only and costs a few ns. Nil means none.
	Lost func() time.Duration
	// Deferred is the queue of deferred requests. If nil, no request is deferred.
	Deferred Queue
	// Withdrawals takes back what Deferred may have queued without an answer. If nil, nothing is taken back.
	Withdrawals *Withdrawals
	// Now is the wall clock, for durations and for the schedules of rules. Buckets use the
	// clock of the store. Required.
	Now func() time.Time
	// Observe receives every decision. It may be nil.
	Observe Observer
	// Trace records decisions as spans. If nil, nothing is recorded.
	Trace Tracer
	// Loads holds the fleet's reports about pools. If nil, reports are kept in this Checker
	// only.
	Loads *Loads
	// Regions knows where Store has its buckets; nil if they are all in one place.
	Regions Regions
	// Held returns who holds units of a bucket that are charged and may be unspent. If nil, nobody is known.
	Held func(ctx context.Context, key limiter.Key) []Held
	// Rand returns a uniformly random number from 0 to n-1, for the jitter of retry-after. It
	// must be safe for concurrent use. If nil, the runtime's random source is used.
	Rand func(n int64) int64
}

// Regions knows of a Store in which of several regions a bucket is. It is safe for concurrent use.
type Regions interface {
	// TimeFor returns the time for a request that goes to another region, 0 for any other. It must not block.
	TimeFor(asks []limiter.Ask) time.Duration
	// Home returns the region that has a bucket, "" for a bucket that each region has. It must not block.
	Home(key limiter.Key) string
	// Spent returns what each region has spent in a bucket that spans regions, by name; nil if that is unknown.
	Spent(ctx context.Context, key limiter.Key, l limiter.Limit) []limiter.RegionUnits
}

// Checker decides questions. It finds the limits that apply and lets the store decide all of
// them in one call. If the store cannot decide, each limit's fail mode does. It does not know
// which face a question came through. It is safe for concurrent use and owns no goroutine.
type Checker struct {
	opt CheckerOptions
	// patience is Timeout before the reserve is taken off, negative for none.
	patience time.Duration
}

// NewChecker returns a Checker. It fails only if a required option is missing.
func NewChecker(opt CheckerOptions) (*Checker, error) {
	if opt.Sets == nil || opt.Store == nil || opt.Now == nil {
		return nil, errors.New("checker: Sets, Store and Now are required")
	}
	if opt.Timeout == 0 {
		opt.Timeout = DefaultTimeout
	}
	patience := opt.Timeout
	if opt.Timeout > 0 {
		opt.Timeout -= min(opt.Timeout/reservePart, maxReserve)
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
	return &Checker{opt: opt, patience: patience}, nil
}

// work returns cleared memory for one call.
func (c *Checker) work() *work {
	w, _ := workPool.Get().(*work)
	w.loads = c.opt.Loads
	return w
}

// Do answers one question. A take or a peek always gets an answer, whatever the store does,
// unless it needs rules and none were ever loaded (ErrNoSet). Only the store carries out the
// other operations; if it fails, the error is the store's, a *limiter.StoreError.
func (c *Checker) Do(ctx context.Context, q *Question, a *Answer) error {
	if c.opt.Trace == nil {
		return c.do(ctx, q, a)
	}
	return c.traced(ctx, &q.Origin, a, func(ctx context.Context) error { return c.do(ctx, q, a) })
}

func (c *Checker) do(ctx context.Context, q *Question, a *Answer) error {
	w := c.work()
	defer w.release()
	start, lost := c.opt.Now(), c.lost()
	if err := w.add(ctx, q, c.opt.Sets.Load(), start); err != nil {
		return err
	}
	c.decide(ctx, w)
	p := &w.plans[0]
	if err := c.answer(ctx, w, p, a); err != nil {
		return err
	}
	took := c.opt.Now().Sub(start)
	w.decision = Decision{Question: q, Answer: a, Took: took, Outcome: p.outcome, By: p.by,
		ID: p.id, Origin: q.Origin, Starved: c.starved(took, lost)}
	c.opt.Observe.ObserveDecision(&w.decision)
	return nil
}

// DoAll answers many takes or peeks, independently, with one call of the store. as and qs have the same length. All of
// them see the same set. The error is ErrNoSet, or the error of ctx if the caller left before the store was called;
// then nothing is spent. large is called once, before anything is spent, if more than LargeBatch limits apply; its
// error ends the call too. A nil func admits any number.
func (c *Checker) DoAll(ctx context.Context, qs []Question, as []Answer, large func() error) error {
	if c.opt.Trace == nil {
		return c.doAll(ctx, qs, as, large)
	}
	return c.doAllTraced(ctx, qs, as, large)
}

// LargeBatch is the largest number of limits for which DoAll does not ask. Questions that fit into 64 KiB rarely need
// more, and their plan and answers take a few MB.
const LargeBatch = 2000

func (c *Checker) doAll(ctx context.Context, qs []Question, as []Answer, large func() error) error {
	w := c.work()
	defer w.release()
	start, lost := c.opt.Now(), c.lost()
	set := c.opt.Sets.Load()
	for i := range qs {
		if err := ctx.Err(); errors.Is(err, context.Canceled) {
			return err
		}
		if err := w.add(ctx, &qs[i], set, start); err != nil {
			return err
		}
		if large != nil && len(w.limits) > LargeBatch {
			if err := large(); err != nil {
				return err
			}
			large = nil
		}
	}
	c.decide(ctx, w)
	for i := range qs {
		if err := c.answer(ctx, w, &w.plans[i], &as[i]); err != nil {
			return err
		}
	}
	took := c.opt.Now().Sub(start)
	starved := c.starved(took, lost)
	for i := range as {
		p := &w.plans[i]
		w.decision = Decision{Question: p.q, Answer: &as[i], Took: took, Outcome: p.outcome, By: p.by,
			ID: p.id, Origin: p.q.Origin, Starved: starved}
		c.opt.Observe.ObserveDecision(&w.decision)
	}
	return nil
}

// decide makes the one call of the store, and a second one for requests that elastic limits may still allow, or for
// quotas together with other limits.
func (c *Checker) decide(ctx context.Context, w *work) {
	calls := w.calls
	if timeout := c.timeout(calls); timeout > 0 && len(calls) > 0 {
		b := c.within(ctx, timeout)
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
	if w.hasElastic {
		c.retryElastic(ctx, w)
	}
	if w.hasQuotas {
		c.takeQuotas(ctx, w)
	}
}

// Set returns the rules in force, nil if none were ever loaded.
func (c *Checker) Set() *match.Set { return c.opt.Sets.Load() }

// answer turns the store's decisions for one plan into the answer to its question, and tells
// the observer what became of the units.
func (c *Checker) answer(ctx context.Context, w *work, p *plan, a *Answer) error {
	q := p.q
	*a = Answer{Op: q.Op, Verdict: Allowed, Strictest: -1, Route: q.Descriptor.Route, Dialect: q.Dialect,
		Limits: a.Limits[:0]}
	calls, enforced := w.calls[p.from:p.to], w.limits[p.first:p.first+p.enforced]
	if len(enforced) > 0 {
		switch main := &calls[0]; {
		case main.Err == nil:
			a.apply(p, enforced, w.pools[p.pools:p.poolsEnd], main)
			if p.failsLocal {
				c.opt.Ledger.mirror(enforced, main)
			}
		case (q.Op == limiter.OpTake || q.Op == limiter.OpPeek) && !q.strict:
			c.degrade(ctx, a, enforced, main)
		default:
			c.observeFailure(main.Err)
			for i := range enforced {
				_, _ = c.releaseLocally(ctx, &enforced[i], main)
			}
			if q.Op == limiter.OpCharge || q.Op == limiter.OpTake {
				c.observeDoubt(rules.ModeEnforce, q.Op, enforced, main.Err)
			}
			return main.Err
		}
		calls = calls[1:]
	}
	if !a.Allowed() && (q.Op == limiter.OpTake || q.Op == limiter.OpPeek || q.Op == limiter.OpCharge) {
		c.retries(a, enforced)
	}
	if a.Verdict == Overloaded {
		c.opt.Observe.ObserveOverload(a.Impatient)
	}
	if len(calls) > 0 {
		c.applyApart(w, a, w.limits[p.first+p.enforced:p.end], calls)
	}
	if q.Op == limiter.OpTake && a.Allowed() && p.hasLeases {
		a.Lease = leaseToken(w, p, a)
	}
	if q.secret != nil && a.Allowed() && !ByFailMode(a.Degraded) {
		a.Reservation = c.reserved(ctx, w, p, a)
	}
	if q.Deferrable && !a.Allowed() {
		c.postpone(ctx, q, enforced, a)
	}
	c.account(w, p, a)
	return nil
}

// observeFailure reports to the observer that the store failed or was overloaded in an operation that no fail mode
// decides.
func (c *Checker) observeFailure(err error) {
	if isOverload(err) {
		c.opt.Observe.ObserveOverload(false) // only takes and looks are impatient
		return
	}
	c.opt.Observe.ObserveDegraded(Degraded{Cause: limiter.CauseOf(err)})
}
