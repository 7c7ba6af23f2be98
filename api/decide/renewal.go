package decide

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// MaxReservationTotal is the longest life of a reservation with all its renewals, in ms.
	MaxReservationTotal = 86_400_000
	// maxAdditions bounds how often a reservation's estimate grows.
	maxAdditions = 32
)

// Errors that only a renewal can have.
var (
	// ErrGrantRenewed means that a grant was to be renewed.
	ErrGrantRenewed = errors.New("a reservation of requests that its caller decides cannot be renewed")
	// ErrTooMuchMore means that the estimate grew too often for a token to hold.
	ErrTooMuchMore = errors.New("the estimate of the reservation grew too often")
)

// TooLongError means that a reservation would live for longer than MaxReservationTotal. Left is the longest life from
// now on, in ms.
type TooLongError struct{ Left int64 }

// Error implements error.
func (e *TooLongError) Error() string {
	return "the reservation may live for " + strconv.FormatInt(e.Left, 10) + " ms more"
}

// Renewal prolongs a reservation and adds to its estimate.
type Renewal struct {
	// Reservation is the newest token.
	Reservation string
	// TTL is how long it lives from now on, in ms: MinReservationLife to MaxReservationLife.
	TTL int64
	// Weight is how many units the estimate grows by, for every limit except those of rules with a weight_field, and
	// Fields are those by field. Limits that get none do not change.
	Weight int64
	Fields map[string]int64
	// Origin is for records only.
	Origin Origin
}

// more returns how many units the estimate of a limit grows by.
func (n *Renewal) more(a *reservedAsk) int64 {
	switch {
	case a.Look || a.isPool:
		return 0
	case a.source != "" && !a.isNamed:
		return n.Fields[a.source]
	}
	return n.Weight
}

// adds reports whether the estimate grows.
func (n *Renewal) adds() bool {
	for _, v := range n.Fields {
		if v > 0 {
			return true
		}
	}
	return n.Weight > 0
}

// RenewReservation lets a reservation live until n.TTL from now, and its concurrency slots with it. What the estimate
// grows by is taken from all limits together or not at all; if it does not fit, the answer is denied and nothing
// changes. The answer has a new token, which replaces the old one. A repeat with the same token within a minute takes
// nothing again. Errors are those of SettleReservation, ErrGrantRenewed, ErrTooMuchMore and *TooLongError.
func (c *Checker) RenewReservation(ctx context.Context, n *Renewal, a *Answer) error {
	if c.opt.Trace == nil {
		return c.renewReservation(ctx, n, a)
	}
	return c.traced(ctx, &n.Origin, a, func(ctx context.Context) error { return c.renewReservation(ctx, n, a) })
}

func (c *Checker) renewReservation(ctx context.Context, n *Renewal, a *Answer) error {
	start := c.opt.Now()
	now := start.UnixMilli()
	opening, cancel := c.limited(ctx)
	defer cancel()
	r, err := c.open(opening, n.Reservation)
	switch {
	case err != nil:
		return err
	case now >= r.expires:
		return r.ended()
	case r.granted > 0 || r.denier > 0:
		return ErrGrantRenewed
	case now+n.TTL > r.began+MaxReservationTotal:
		return &TooLongError{max(0, r.began+MaxReservationTotal-now)}
	}
	secrets, err := c.opt.Secrets.Secrets(opening, false)
	if err != nil || len(secrets) == 0 {
		return &limiter.StoreError{Cause: limiter.CauseConnection, Err: err}
	}
	more, err := r.addition(n)
	if err != nil {
		return err
	}
	calls := r.keepAlive(n.TTL + reservationGrace)
	if timeout := c.timeout(calls); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		ctx = b
	}
	c.opt.Store.DoAll(ctx, calls)
	for i := range calls {
		if err := calls[i].Err; err != nil {
			c.observeFailure(err)
			return err
		}
		looks := i < len(r.calls) && r.calls[i].kind&(resApart|resBare) != 0 // or does not affect the answer
		if !calls[i].Result.Allowed && !looks {
			return r.ended()
		}
	}
	*a = Answer{Op: limiter.OpRenew, Verdict: Allowed, Strictest: -1, Limits: a.Limits[:0]}
	a.renewed(c.opt.Sets.Load(), r, calls)
	if more != nil {
		call := limiter.Call{Request: more.take(n.TTL + reservationGrace)}
		if err := c.opt.Store.Do(ctx, &call.Request, &call.Result); err != nil {
			c.observeFailure(err)
			return err
		}
		a.merge(&call)
		if !call.Result.Allowed {
			a.Verdict = Denied
		} else {
			r.calls = append(r.calls, *more)
		}
	}
	if a.Allowed() {
		r.expires = now + n.TTL
		token := r.seal(secrets[0])
		if err := c.listOpen(ctx, r, token, now); err != nil {
			return &limiter.StoreError{Cause: limiter.CauseConnection, Err: err} // a repeat takes nothing again
		}
		a.Reservation, a.ExpiresIn, a.Returns = token, n.TTL, 100-r.keeps
	}
	d := Decision{Answer: a, Took: c.opt.Now().Sub(start), Origin: n.Origin}
	c.opt.Observe.ObserveDecision(&d)
	return nil
}

// keepAlive returns calls that keep the records of a reservation for ms more, in the order of r.calls, and then those
// that renew its slots. A call of which no record exists only looks.
func (r *reservation) keepAlive(ms int64) []limiter.Call {
	calls := make([]limiter.Call, 0, len(r.calls)+len(r.leases))
	for i := range r.calls {
		req := r.calls[i].request(limiter.OpSettle)
		req.Keep, req.Attempt = ms, limiter.MaxExact
		if r.calls[i].kind&resBare != 0 {
			req = r.calls[i].look()
		}
		calls = append(calls, limiter.Call{Request: req})
	}
	for i := range r.leases {
		req := r.leases[i].Request
		req.Op = limiter.OpRenew
		calls = append(calls, limiter.Call{Request: req})
	}
	return calls
}

// request is one of the call's asks and id.
func (c *reservedCall) request(op limiter.Op) limiter.Request {
	req := limiter.Request{Op: op, ID: c.id, Asks: make([]limiter.Ask, len(c.asks))}
	for i := range c.asks {
		req.Asks[i] = c.asks[i].Ask
	}
	return req
}

// look returns a request that only looks at the buckets of a call.
func (c *reservedCall) look() limiter.Request {
	req := c.request(limiter.OpPeek)
	req.ID = ""
	for k := range req.Asks {
		req.Asks[k].Weight = 0
	}
	return req
}

// addition returns the call that a renewal adds to the reservation, nil for none. Its id follows from the token, so
// that a repeat takes nothing again.
func (r *reservation) addition(n *Renewal) (*reservedCall, error) {
	if !n.adds() {
		return nil, nil
	}
	out := reservedCall{kind: resMore}
	size, additions := 0, 0
	for i := range r.calls {
		base := &r.calls[i]
		for k := range base.asks {
			size += len(base.asks[k].Key) + askSize
		}
		if base.kind == resMore {
			additions++
		}
		if base.kind&(resApart|resMore) != 0 {
			continue
		}
		out.id = base.id
		out.asks = append(out.asks, base.grown(n)...)
	}
	if len(out.asks) == 0 {
		return nil, nil
	}
	for k := range out.asks {
		size += len(out.asks[k].Key) + askSize
	}
	if additions >= maxAdditions || size > reservable {
		return nil, ErrTooMuchMore
	}
	seed := out.id + "\x00" + strconv.Itoa(additions) + "\x00" + strconv.FormatInt(n.Weight, 10)
	for _, name := range slices.Sorted(maps.Keys(n.Fields)) {
		seed += "\x00" + name + "\x00" + strconv.FormatInt(n.Fields[name], 10)
	}
	out.id = "m:" + shortHash(seed)
	return &out, nil
}

// grown returns the asks of what the estimate of a call's limits grows by, and of the pools that they count into.
func (c *reservedCall) grown(n *Renewal) (asks []reservedAsk) {
	pools, place := map[int64]int64{}, int64(0)
	for i := range c.asks {
		ask := c.asks[i]
		if ask.isPool {
			place++
			ask.Weight = pools[place]
		} else if ask.Weight = n.more(&ask); ask.pool > 0 {
			pools[ask.pool] = max(pools[ask.pool], ask.Weight)
		}
		if ask.Weight > 0 {
			ask.pool = 0 // its pools are asks of their own, whose weights are settled in the same way
			asks = append(asks, ask)
		}
	}
	return asks
}

// take takes what the estimate grows by.
func (c *reservedCall) take(keep int64) limiter.Request {
	req := c.request(limiter.OpTake)
	req.Keep = keep
	return req
}

// renewed writes the limits of a renewal, with what remains of each.
func (a *Answer) renewed(set *match.Set, r *reservation, calls []limiter.Call) {
	for i := range r.calls {
		if r.calls[i].kind&resApart != 0 {
			continue
		}
		if a.At = calls[i].Result.At; r.calls[i].kind&resMore != 0 {
			a.merge(&calls[i])
			continue
		}
		for k := range r.calls[i].asks {
			if ask := &r.calls[i].asks[k]; !ask.isPool {
				a.add(set, ask, calls[i].Request.Asks[k].Weight, calls[i].Result.Limits[k])
			}
		}
	}
	for i := range a.Limits {
		a.Limits[i].Decision.Allowed, a.Limits[i].Decision.RetryAfter = true, 0
	}
}

// add adds the answer of one limit of a reservation.
func (a *Answer) add(set *match.Set, ask *reservedAsk, weight int64, d limiter.Decision) {
	la := LimitAnswer{Key: ask.Key, Limit: ask.Limit, Decision: d.Within(ask.Spare), Weight: weight, Known: true}
	la.name(set, ask)
	a.Limits = append(a.Limits, la)
	a.weighLast()
}

// weighLast finds out whether the last limit is the strictest.
func (a *Answer) weighLast() {
	n := len(a.Limits) - 1
	if !a.Limits[n].Meter && (a.Strictest < 0 || a.Limits[n].Decision.StricterThan(a.Limits[a.Strictest].Decision)) {
		a.Strictest = n
	}
}

// merge adds the decisions of an addition to those of the limits that it added to.
func (a *Answer) merge(call *limiter.Call) {
	for k := range call.Request.Asks {
		i := slices.IndexFunc(a.Limits, func(la LimitAnswer) bool { return la.Key == call.Request.Asks[k].Key })
		if i < 0 {
			continue
		}
		la, d := &a.Limits[i], call.Result.Limits[k]
		d.Refunded += la.Decision.Refunded
		la.Weight += call.Request.Asks[k].Weight
		la.Decision = d
	}
	a.Strictest = -1
	for i := range a.Limits {
		if a.Strictest < 0 || a.Limits[i].Decision.StricterThan(a.Limits[a.Strictest].Decision) {
			a.Strictest = i
		}
	}
}
