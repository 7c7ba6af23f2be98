package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Bounds of a reservation's lifetime, in ms.
const (
	MinReservationLife     = 1000
	MaxReservationLife     = 3_600_000
	DefaultReservationLife = 60_000
	// reservationGrace is how much longer the record of a reservation is kept, because clocks
	// of nodes and stores differ.
	reservationGrace = 60_000
)

// Secrets provides the secrets that seal reservations, which are the same on every node.
// Implementations are safe for concurrent use.
type Secrets interface {
	// Secrets returns at least one secret, the current one first. again is true if a token
	// matched none of the known secrets, so that they must be read anew.
	Secrets(ctx context.Context, again bool) ([][]byte, error)
}

// ErrReservationEnded means that a reservation has expired or its record is lost. It is a *ReservationEndedError.
var ErrReservationEnded = errors.New("the reservation has ended")

// ReservationEndedError says what stays charged of a reservation that nobody settled in time.
type ReservationEndedError struct {
	// Keeps is the percentage of the estimate.
	Keeps int64
}

// Error implements error.
func (e *ReservationEndedError) Error() string { return ErrReservationEnded.Error() }

// Is makes errors.Is find ErrReservationEnded.
func (e *ReservationEndedError) Is(target error) bool { return target == ErrReservationEnded }

// ended is the error of a reservation that has ended.
func (r *reservation) ended() error { return &ReservationEndedError{r.keeps} }

// ErrTooManyLimits means that a token cannot hold all limits that apply.
var ErrTooManyLimits = errors.New("too many limits apply for a reservation")

// Reserve is Do for a take whose weight is an estimate. An allowed answer has a reservation
// with a lifetime of ttl ms, to be settled with the actual weight. It has none if a fail mode
// decided, because then it is unknown what was charged, or while the secret is unavailable.
//
// With q.Times, it charges that many requests like this one, or all that are left if at least q.Least are, for the
// caller to decide; see Answer.Granted. The limits must permit that, else it charges one.
// Errors are those of Do, and ErrTooManyLimits.
func (c *Checker) Reserve(ctx context.Context, q *Question, ttl int64, a *Answer) error {
	q.reserve = ttl
	if c.opt.Secrets != nil {
		sctx, cancel := c.limited(ctx)
		defer cancel()
		if list, err := c.opt.Secrets.Secrets(sctx, false); err == nil && len(list) > 0 {
			q.secret = list[0]
		}
	}
	switch {
	case q.Times == 0:
		return c.Do(ctx, q, a)
	case c.opt.Trace == nil:
		return c.grant(ctx, q, a)
	}
	return c.traced(ctx, &q.Origin, a, func(ctx context.Context) error { return c.grant(ctx, q, a) })
}

// keep makes the store keep the records of a reserve until it can no longer be settled. It
// rejects a request whose token would be too long.
func (w *work) keep(p *plan) error {
	size := 0
	for i := p.from; i < len(w.calls); i++ {
		req := &w.calls[i].Request
		req.Keep = p.q.reserve + reservationGrace
		for k := range req.Asks {
			size += len(req.Asks[k].Key) + askSize
		}
	}
	if size > reservable {
		return ErrTooManyLimits
	}
	return nil
}

// reserved returns the token of what plan p charged.
func (c *Checker) reserved(ctx context.Context, w *work, p *plan, a *Answer) string {
	now := c.opt.Now().UnixMilli()
	out := reservation{began: now, expires: now + p.q.reserve, keeps: 100 - p.q.Returns, request: p.q.RequestID}
	if p.grant.within > 0 {
		out.granted, out.shrinks = p.grant.times, p.grant.shrinks
	}
	limit := p.first
	for i := p.from; i < p.to; i++ {
		call := &w.calls[i]
		n := 1
		if i == p.from && p.enforced > 0 {
			n = p.enforced
		}
		if call.Err == nil && call.Result.Allowed {
			out.add(call, w.limits[limit:limit+n], i == p.from && p.enforced > 0)
		}
		limit += n
	}
	c.shelve(&out, p)
	token := out.seal(p.q.secret)
	if len(token) > maxReservation { // because the names of fields are very long
		return ""
	}
	if c.listOpen(ctx, &out, token, 0) != nil { // nobody could do anything at its end
		out.keeps, out.name = 100, ""
		token = out.seal(p.q.secret)
	}
	a.Returns = 100 - out.keeps
	a.ExpiresIn = p.q.reserve
	return token
}

// add adds what one call charged, and the leases that it took.
func (r *reservation) add(call *limiter.Call, limits []plannedLimit, enforced bool) {
	out := reservedCall{kind: resApart, id: call.Request.ID}
	if enforced {
		out.kind = resEnforced
	}
	leases := limiter.Call{Request: limiter.Request{Op: limiter.OpRelease, ID: call.Request.ID}}
	places := poolPlaces(limits)
	recorded, next := false, 0
	for k := range call.Request.Asks {
		if call.Request.Asks[k].Limit.Algorithm == limiter.Ban { // there is nothing to settle
			continue
		}
		at := next
		next++
		ask := reservedAsk{Ask: call.Request.Asks[k], isPool: at >= len(limits)}
		if part := call.Result.Part(k); part != nil {
			ask.Ask = part.Asked
		}
		if ask.Limit.Kept == limiter.KeptSet { // a settlement sets no limit
			ask.Limit.Kept = limiter.KeptObeyed
		}
		if ask.Limit.Algorithm.Traits().Slots {
			if ask.Weight > 0 {
				leases.Request.Asks = append(leases.Request.Asks, ask.Ask)
			}
			continue
		}
		if !ask.isPool {
			if p := &limits[at]; p.rule != nil && p.rule.Rule.WeightField != nil {
				ask.source = *p.rule.Rule.WeightField
			} else if p.name != "" {
				ask.source, ask.isNamed = p.name, true
			}
			ask.pool = places[limits[at].pool]
		}
		recorded = recorded || ask.Weight > 0 && !ask.Look
		out.asks = append(out.asks, ask)
	}
	if len(out.asks) > 0 {
		if !recorded {
			out.kind |= resBare
		}
		r.calls = append(r.calls, out)
	}
	if len(leases.Request.Asks) > 0 {
		r.leases = append(r.leases, leases)
	}
}

// poolPlaces returns the number (from 1) of each pool of one call's limits among the pools at
// the end of the call's asks.
func poolPlaces(limits []plannedLimit) map[int32]int64 {
	first := int32(0)
	for i := range limits {
		if p := limits[i].pool; p > 0 && (first == 0 || p < first) {
			first = p
		}
	}
	places := map[int32]int64{0: 0}
	for i := range limits {
		if p := limits[i].pool; p > 0 {
			places[p] = int64(p-first) + 1
		}
	}
	return places
}

// Settlement is the actual weight of a reserved request.
type Settlement struct {
	// Reservation is the token.
	Reservation string
	// Weight is in units, -1 if it is as estimated. It applies to every limit except those of
	// rules with a weight_field.
	Weight int64
	// Fields are the weights for rules with a weight_field. Missing ones stay as estimated.
	Fields map[string]int64
	// RequestID, without Reservation, is that of the reserve. A reservation that was renewed is the newest one.
	RequestID string
	// Decisions are those that the caller of a grant made, nil if it reports none.
	Decisions *Decisions
	// expired: the reservation ended, and keeps percent of the estimate stay charged.
	expired bool
	keeps   int64
	// Origin is for records only.
	Origin Origin
}

// Decisions are numbers of requests.
type Decisions struct{ Allowed, Denied int64 }

// ErrNoDecisions means that a settle reports decisions, and its reservation is of a request that the caller does not
// decide.
var ErrNoDecisions = errors.New("the caller of this reservation decides nothing")

// GrantExceededError means that a settle reports more requests as allowed than were granted.
type GrantExceededError struct{ Granted int64 }

// Error implements error.
func (e *GrantExceededError) Error() string {
	return fmt.Sprintf("%d requests were granted", e.Granted)
}

// SettleReservation corrects what a reservation charged to the actual weight. For every limit
// of the request the difference is charged, whether or not it fits, or given back, but never so
// much that less counts than if the actual weight had been charged at first. A repeat gets the
// same answer and changes nothing. Leases of the reserve are released. A grant that shrinks stays
// charged as it is. The token of a denied grant only reports denials, with each settlement those since the last.
// Errors are ErrBadReservation, ErrReservationEnded, ErrNoDecisions, ErrNothingCharged, *GrantExceededError, or the
// store's; after an error of the store the settlement can be repeated.
func (c *Checker) SettleReservation(ctx context.Context, s *Settlement, a *Answer) error {
	if c.opt.Trace == nil {
		return c.settle(ctx, s, a)
	}
	return c.traced(ctx, &s.Origin, a, func(ctx context.Context) error { return c.settle(ctx, s, a) })
}

func (c *Checker) settle(ctx context.Context, s *Settlement, a *Answer) error {
	start := c.opt.Now()
	opening, cancel := c.limited(ctx)
	defer cancel()
	if s.Reservation == "" {
		var err error
		if s.Reservation, err = c.find(opening, s.RequestID); err != nil {
			return err
		}
	}
	r, err := c.open(opening, s.Reservation)
	if err != nil {
		return err
	}
	if start.UnixMilli() >= r.expires {
		return r.ended()
	}
	switch {
	case s.Decisions == nil:
	case r.granted == 0 && r.denier == 0:
		return ErrNoDecisions
	case s.Decisions.Allowed > r.granted:
		return &GrantExceededError{r.granted}
	}
	if r.denier > 0 {
		return c.settleDenials(r, start, s, a)
	}
	if r.shrinks { // what it spent may be spent later than it drains, so nothing of it comes back
		s.Weight, s.Fields = -1, nil
	}
	if err := c.settleOpened(ctx, r, s, start, a); err != nil {
		return err
	}
	c.unlist(r)
	return nil
}

// settleOpened settles a reservation, whether or not it has expired.
func (c *Checker) settleOpened(ctx context.Context, r *reservation, s *Settlement, start time.Time, a *Answer) error {
	calls := append(r.settle(s), r.leases...)
	if timeout := c.timeout(calls); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		ctx = b
	}
	c.opt.Store.DoAll(ctx, calls)
	calls, r.leases = calls[:len(r.calls)], calls[len(r.calls):]
	return c.answerSettlement(ctx, r, calls, start, s, a)
}

// open reads a token. It reads the secrets anew if none of the known ones matches.
func (c *Checker) open(ctx context.Context, token string) (*reservation, error) {
	if c.opt.Secrets == nil {
		return nil, ErrBadReservation
	}
	for _, again := range []bool{false, true} {
		secrets, err := c.opt.Secrets.Secrets(ctx, again)
		if err != nil {
			return nil, &limiter.StoreError{Cause: limiter.CauseConnection,
				Err: fmt.Errorf("the secret of reservations: %w", err)}
		}
		r, err := openReservation(token, secrets)
		if err == nil || again {
			return r, err
		}
	}
	return nil, ErrBadReservation
}

// settle returns the store calls that settle a reservation, in the order of its calls. What renewals took is given back
// first: each call is settled to at most what it took, and what is above all of them is charged with the first.
func (r *reservation) settle(s *Settlement) []limiter.Call {
	calls := make([]limiter.Call, len(r.calls), len(r.calls)+len(r.leases))
	var more, left map[limiter.Key]int64 // by limit: what renewals took, and what of it was used
	for i := range r.calls {
		calls[i].Request = r.calls[i].request(limiter.OpSettle)
		if r.calls[i].kind&resMore == 0 {
			continue
		}
		if more == nil {
			more, left = map[limiter.Key]int64{}, map[limiter.Key]int64{}
		}
		for k := range r.calls[i].asks {
			more[r.calls[i].asks[k].Key] += r.calls[i].asks[k].Weight
		}
	}
	for i := range r.calls {
		asks := calls[i].Request.Asks
		if r.calls[i].kind&resMore != 0 {
			for k := range asks {
				asks[k].Weight = min(asks[k].Weight, left[asks[k].Key])
				left[asks[k].Key] -= asks[k].Weight
			}
			continue
		}
		if s.expired && r.calls[i].kind&resBare != 0 { // it spent nothing, and what a settlement has charged stays
			calls[i].Request = r.calls[i].look()
			continue
		}
		r.calls[i].weigh(s, asks, more)
		for k := range asks {
			if added := more[asks[k].Key]; added > 0 {
				estimate, actual := r.calls[i].asks[k].Weight, asks[k].Weight
				left[asks[k].Key] = min(max(0, actual-estimate), added)
				asks[k].Weight = min(actual, estimate) + max(0, actual-estimate-added)
			}
		}
	}
	return calls
}

// weigh sets the actual weights of one call. more is what renewals added to the estimates.
func (c *reservedCall) weigh(s *Settlement, asks []limiter.Ask, more map[limiter.Key]int64) {
	var pools map[int64]int64 // the largest weight of each pool's limits
	place := int64(0)
	for i := range c.asks {
		a := &c.asks[i]
		if a.isPool {
			if place++; a.Weight > 0 {
				asks[i].Weight = pools[place]
			}
			continue
		}
		asks[i].Weight = a.weigh(s, a.Weight+more[a.Key])
		if a.pool > 0 && !a.Look {
			if pools == nil {
				pools = map[int64]int64{}
			}
			pools[a.pool] = max(pools[a.pool], asks[i].Weight)
		}
	}
}

// weigh returns the actual weight of the request for one limit, of which so much was estimated.
func (a *reservedAsk) weigh(s *Settlement, estimate int64) int64 {
	if s.expired {
		return estimate/100*s.keeps + (estimate%100*s.keeps+99)/100
	}
	if a.source != "" && !a.isNamed {
		if v, ok := s.Fields[a.source]; ok {
			return v
		}
		return estimate
	}
	if s.Weight >= 0 {
		return s.Weight
	}
	return estimate
}

// answerSettlement writes the answer of a settlement, with the enforced limits only.
func (c *Checker) answerSettlement(ctx context.Context, r *reservation, calls []limiter.Call, start time.Time,
	s *Settlement, a *Answer) error {
	*a = Answer{Op: limiter.OpSettle, Verdict: Allowed, Strictest: -1, Limits: a.Limits[:0]}
	set := c.opt.Sets.Load()
	for i := range calls {
		err := calls[i].Err
		if !s.expired {
			err = c.bare(ctx, r.calls[i].kind, &calls[i])
		}
		if err != nil {
			c.observeFailure(err)
			return err
		}
		if r.calls[i].kind&resApart != 0 {
			continue
		}
		if r.calls[i].kind&resMore != 0 { // its record ends with those of the estimate at first
			a.merge(&calls[i])
			c.observeSettlement(&r.calls[i], &calls[i])
			continue
		}
		if !calls[i].Result.Allowed && r.calls[i].kind&resBare == 0 {
			return r.ended()
		}
		a.applySettlement(set, &r.calls[i], &calls[i])
		c.observeSettlement(&r.calls[i], &calls[i])
	}
	for i := range r.leases {
		if err := r.leases[i].Err; err != nil {
			c.observeFailure(err)
			return err
		}
	}
	c.opt.Ledger.mirrorLeases(r.leases)
	d := Decision{Answer: a, Took: c.opt.Now().Sub(start), Origin: s.Origin, Settled: s}
	if a.Replayed {
		s.Decisions = nil // they count once
	}
	if len(r.calls) > 0 {
		d.ID = r.calls[0].id
	}
	c.opt.Observe.ObserveDecision(&d)
	return nil
}

// bare charges the actual weight if the reserve spent nothing and so left no record to settle.
// The charge leaves a record, which a repeat settles to the same weight.
func (c *Checker) bare(ctx context.Context, kind uint8, call *limiter.Call) error {
	if call.Err != nil || kind&resBare == 0 || call.Result.Allowed {
		return call.Err
	}
	call.Request.Op = limiter.OpCharge
	call.Request.Keep = MaxReservationLife
	asks := call.Request.Asks[:0]
	for _, ask := range call.Request.Asks {
		if ask.Look {
			ask.Weight = 0
		}
		asks = append(asks, ask)
	}
	call.Request.Asks = asks
	return c.opt.Store.Do(ctx, &call.Request, &call.Result)
}

func (a *Answer) applySettlement(set *match.Set, r *reservedCall, call *limiter.Call) {
	a.At, a.Replayed = call.Result.At, call.Result.Replayed
	for i := range call.Request.Asks {
		if r.asks[i].isPool {
			continue
		}
		d := call.Result.Limits[i]
		if d.Used > d.Limit { // as a charge says of what does not fit
			d.Allowed, a.Verdict = false, Denied
		}
		a.add(set, &r.asks[i], call.Request.Asks[i].Weight, d)
	}
}

// name sets what identifies the limit that a reserve charged.
func (la *LimitAnswer) name(set *match.Set, of *reservedAsk) {
	if rule := ruleOfKey(set, la.Key); rule != nil {
		la.Rule, la.Notify = rule.Rule.Name, rule.Notify
		la.Meter = rule.Rule.IsMeter() && la.Limit.Count == limiter.MaxExact
	} else if la.Direct = true; of.isNamed {
		la.Rule = of.source
	}
}

// observeSettlement reports the difference that a settlement made.
func (c *Checker) observeSettlement(r *reservedCall, call *limiter.Call) {
	if call.Result.Replayed {
		return
	}
	for i := range r.asks {
		if r.asks[i].isPool || r.asks[i].Look {
			continue
		}
		c.observeUnits(rules.ModeEnforce, OutcomeRefunded, ByStore, call.Result.Limits[i].Refunded)
		c.observeUnits(rules.ModeEnforce, OutcomeAdmitted, ByStore, call.Request.Asks[i].Weight-r.asks[i].Weight)
	}
}
