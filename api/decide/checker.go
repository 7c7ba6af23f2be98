package decide

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"sluice/internal/deferred"
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
	Deferred deferred.Queue
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

// Question is one request put to the Checker: a direct limit, or a descriptor
// to which the rules in force apply.
type Question struct {
	Op limiter.Op
	// IsDirect: Direct brings bucket and limit, and Descriptor is not used.
	IsDirect   bool
	Direct     Direct
	Descriptor rules.Descriptor
	// Weight is in units, 0 to limiter.MaxExact; 0 looks without spending.
	Weight int64
	// RequestID makes a repeat safe, names a charge for its refund, and names a
	// concurrency lease. Up to 64 bytes, optional but for release and renew.
	RequestID string
	// Deferrable: the caller can bear with 202. Payload, up to 16 KiB and opaque,
	// is then kept with a request that is deferred, and given back at its release.
	Deferrable bool
	Payload    string

	strict  bool   // no fail mode decides
	reserve int64  // the life of the reservation to give, ms; 0 for none
	secret  []byte // what it is sealed with; nil if that cannot be had
}

// Direct is a limit that the caller brings.
type Direct struct {
	// Key is the caller's own name of the bucket. Two algorithms that store
	// different kinds of state have different buckets under one key.
	Key string
	// Limit must be valid.
	Limit limiter.Limit
	// FailMode is open, closed or local; "" is open.
	FailMode string
}

// Verdict is what was decided about a request as a whole.
type Verdict uint8

// The verdicts. Allowed is the zero value.
const (
	// Allowed: no enforced limit denied. A renew is allowed if every lease was
	// still held, a charge if its weight still fitted.
	Allowed Verdict = iota
	// Denied: an enforced limit did.
	Denied
	// Deferred: an enforced limit denied, and the request waits in the queue of its
	// rule.
	Deferred
	// Unavailable: a closed fail mode denied, because the store could not decide.
	Unavailable
)

// String names a verdict, for people.
func (v Verdict) String() string {
	return [...]string{"allowed", "denied", "deferred", "unavailable"}[v]
}

// Answer is what the Checker says of one Question.
type Answer struct {
	Op      limiter.Op
	Verdict Verdict
	// Ticket names the deferred request, "" if it was not deferred. NotDeferred
	// says why a request that the rules would defer was denied: full or
	// unavailable.
	Ticket, NotDeferred string
	// Degraded is the fail mode that had a say (closed before local before
	// open), "" when the store decided everything.
	Degraded string
	// Replayed: the stored answer to an earlier request with the same id.
	Replayed bool
	// Soft and Elastic: allowed, but above an enforced limit of that throttle.
	Soft, Elastic bool
	// Lease is an opaque token for release and renew when concurrency leases
	// were taken, else "".
	Lease string
	// Reservation is an opaque token for settle, which ExpiresIn ms are left for,
	// when a reserve was allowed, else "".
	Reservation string
	ExpiresIn   int64
	// At is the store's time of the decision in ms since the epoch, 0 if unknown.
	At int64
	// Strictest is the index in Limits of the limit whose figures are the
	// answer's own, -1 when there is none.
	Strictest int
	// Limits has one entry for every limit that applied, enforced ones first.
	Limits []LimitAnswer
}

// LimitAnswer is one limit's part of an Answer.
type LimitAnswer struct {
	// Rule is the rule's name, "" for a direct limit, and Version its version.
	Rule    string
	Version int64
	Key     limiter.Key
	// Limit is the limit that was applied.
	Limit limiter.Limit
	// Decision is what it said. Only Allowed and Limit mean anything unless Known.
	Decision limiter.Decision
	// Known: a store decided. False when a fail mode did so without figures.
	Known bool
	// Shadow: computed and counted, but without a say. So is every candidate.
	Shadow bool
	// Candidate: the rule's candidate, beside its limit.
	Candidate bool
	// Soft and Elastic: allowed, but above the limit. A soft limit warns, an
	// elastic one had room in its pool.
	Soft, Elastic bool
	// Degraded is the fail mode that decided this limit, "" for the store.
	Degraded string
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

// Allowed says that the request may pass.
func (a *Answer) Allowed() bool { return a.Verdict == Allowed }

// Set gives the rules in force, nil if none were ever loaded.
func (c *Checker) Set() *rules.Set { return c.opt.Sets.Load() }

// begin makes a an allowed answer without limits, keeping its memory.
func (a *Answer) begin(op limiter.Op) {
	*a = Answer{Op: op, Strictest: -1, Limits: a.Limits[:0]}
}

// Forget drops what a points to and keeps its memory.
func (a *Answer) Forget() {
	clear(a.Limits)
	*a = Answer{Limits: a.Limits[:0]}
}

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

// Name is the name by which clients and metrics know the limit: its rule's, or
// rules.DirectRule.
func (la *LimitAnswer) Name() string {
	if la.Rule == "" {
		return rules.DirectRule
	}
	return la.Rule
}

// Mode is enforce, shadow or candidate.
func (la *LimitAnswer) Mode() string {
	switch {
	case la.Candidate:
		return ModeCandidate
	case la.Shadow:
		return rules.ModeShadow
	}
	return rules.ModeEnforce
}

// Display is the bucket's name for people, such as user:42, or the caller's own
// key for a direct limit. What looks like a credential shows as a hash.
func (la *LimitAnswer) Display() string {
	if la.Rule == "" {
		return rules.DisplayDirectKey(la.Key)
	}
	return rules.DisplayKey(la.Key)
}

// RetryAfter is the answer's own retry-after in ms, false when it has none.
func (a *Answer) RetryAfter() (int64, bool) {
	if a.Strictest >= 0 {
		return a.Limits[a.Strictest].Decision.RetryAfter, true
	}
	// A closed fail mode cannot know when the store will be back; a second is a
	// polite guess, as RFC 9110 section 10.2.3 allows.
	return closedRetryAfterMS, !a.Allowed()
}

// closedRetryAfterMS is the guess of RetryAfter, in ms.
const closedRetryAfterMS = 1000
