package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sluice/limiter"
)

// Reference is a slow, exact limiter.Store that follows the definitions of docs/algorithms.md: levels are fractions,
// and waits are found by search. It shares no arithmetic with the stores under test, never expires anything, and is
// safe for concurrent use.
type Reference struct {
	clock func() int64

	mu      sync.Mutex
	buckets map[limiter.Key]model
	records map[recordName]*record
}

var _ limiter.Store = (*Reference)(nil)

// recordName identifies a request record.
type recordName struct{ tag, id string }

// record is the effect of a named request.
type record struct {
	at     int64
	spent  map[limiter.Key]charge
	order  []limiter.Key
	given  map[limiter.Key]bool
	held   map[int64]bool // attempts; nil for good
	answer limiter.Result
	// settled has the decision for each settled key, nil before the settlement.
	settled   map[limiter.Key]limiter.Decision
	settledAt int64
}

// charge is a weight, the time it was booked at, what was certainly booked before
// it, and its limit.
type charge struct {
	at, weight, base int64
	under            limiter.Limit
	of               model // the bucket, which another one replaces after a reset
}

// NewReference returns an empty store whose time is clock, in ms.
func NewReference(clock func() int64) *Reference {
	return &Reference{clock: clock, buckets: map[limiter.Key]model{}, records: map[recordName]*record{}}
}

// DoAll decides the calls independently, in order.
func (r *Reference) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = r.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// Do decides one request.
func (r *Reference) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := ctx.Err(); err != nil {
		cause := limiter.CauseCanceled
		if errors.Is(err, context.DeadlineExceeded) {
			cause = limiter.CauseTimeout
		}
		return &limiter.StoreError{Cause: cause, Err: err}
	}
	if err := req.Check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	answer := limiter.Result{Allowed: true, At: now}
	switch req.Op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		answer = r.take(req, now)
	case limiter.OpRefund:
		rec := r.records[nameOf(req)]
		relied := req.Attempt != 0 && rec != nil && !rec.letGo(req.Attempt)
		for _, a := range req.Asks {
			if relied {
				m, _ := r.bucket(a)
				m.rebase(a.Limit, now)
				answer.Limits = append(answer.Limits, figures(a.Limit, m, now))
				continue
			}
			answer.Limits = append(answer.Limits, r.refund(rec, req.ID, a, now))
		}
	case limiter.OpSettle:
		answer = r.settle(req, now)
	case limiter.OpReset:
		for _, a := range req.Asks {
			delete(r.buckets, a.Key)
			answer.Limits = append(answer.Limits, figures(a.Limit, newModel(a.Limit), now))
		}
	case limiter.OpRelease, limiter.OpRenew:
		for _, a := range req.Asks {
			answer.Limits = append(answer.Limits, r.releaseOrRenew(req.Op, req.ID, a, now))
		}
	default:
		return fmt.Errorf("%w: %s", limiter.ErrInvalid, req.Op)
	}
	for _, d := range answer.Limits {
		answer.Allowed = answer.Allowed && d.Allowed
	}
	res.Allowed, res.Replayed, res.At = answer.Allowed, answer.Replayed, answer.At
	res.Limits = append(res.Limits[:0], answer.Limits...)
	return nil
}

func nameOf(req *limiter.Request) recordName {
	return recordName{tag: req.Asks[0].Key.Tag(), id: req.ID}
}

// bucket returns the model at a.Key, or a fresh one that is not stored.
func (r *Reference) bucket(a limiter.Ask) (model, bool) {
	if m, ok := r.buckets[a.Key]; ok {
		return m, true
	}
	return newModel(a.Limit), false
}

// recorded reports whether req writes a record when it spends.
func recorded(req *limiter.Request) bool {
	return req.ID != "" && req.Op != limiter.OpPeek && slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool {
		return !a.Limit.Algorithm.Traits().Slots
	})
}

// letGo ends the hold of an attempt, and reports whether it was the last one.
func (rec *record) letGo(attempt int64) bool {
	held := rec.held[attempt]
	delete(rec.held, attempt)
	return held && len(rec.held) == 0
}

// replay returns the stored answer to req, if any.
func (r *Reference) replay(req *limiter.Request, now int64) (limiter.Result, bool) {
	rec := r.records[nameOf(req)]
	if rec == nil || len(rec.given) > 0 || now < rec.at || now-rec.at > limiter.ReplayWindow {
		return limiter.Result{}, false
	}
	if !slices.EqualFunc(rec.order, req.Asks, func(k limiter.Key, a limiter.Ask) bool { return k == a.Key }) {
		return limiter.Result{}, false
	}
	if rec.held != nil && req.Attempt == 0 || len(rec.held) >= limiter.MaxAttempts && !rec.held[req.Attempt] {
		rec.held = nil
	} else if rec.held != nil {
		rec.held[req.Attempt] = true
	}
	answer := rec.answer
	answer.Replayed = true
	return answer, true
}

func (r *Reference) take(req *limiter.Request, now int64) limiter.Result {
	if recorded(req) {
		if answer, ok := r.replay(req, now); ok {
			return answer
		}
	}
	answer := limiter.Result{Allowed: true, At: now, Limits: make([]limiter.Decision, len(req.Asks))}
	models := make([]model, len(req.Asks))
	for i, a := range req.Asks {
		m, _ := r.bucket(a)
		m.rebase(a.Limit, now)
		models[i] = m
		answer.Limits[i] = admit(a.Limit, m, now, a.Weight, req.ID)
		answer.Allowed = answer.Allowed && answer.Limits[i].Allowed
	}
	spent := map[limiter.Key]charge{}
	var order []limiter.Key
	for i, a := range req.Asks {
		order = append(order, a.Key)
		if a.Weight > 0 && (req.Op == limiter.OpCharge || (req.Op == limiter.OpTake && answer.Allowed && !a.Look)) {
			spent[a.Key] = charge{at: models[i].spend(a.Limit, now, a.Weight, req.ID), weight: a.Weight, under: a.Limit,
				of: models[i]}
			r.buckets[a.Key] = models[i]
		}
	}
	for i, a := range req.Asks {
		f := figures(a.Limit, models[i], now)
		answer.Limits[i].Remaining, answer.Limits[i].Used, answer.Limits[i].Reset = f.Remaining, f.Used, f.Reset
	}
	if recorded(req) && len(spent) > 0 {
		stored := answer
		stored.Limits = slices.Clone(answer.Limits)
		rec := &record{at: now, spent: spent, order: order, given: map[limiter.Key]bool{}, answer: stored}
		if req.Attempt != 0 {
			rec.held = map[int64]bool{req.Attempt: true}
		}
		r.records[nameOf(req)] = rec
	}
	return answer
}

func (r *Reference) refund(rec *record, id string, a limiter.Ask, now int64) limiter.Decision {
	m, stored := r.bucket(a)
	var units int64
	m.rebase(a.Limit, now)
	if rec != nil && id != "" {
		if c, ok := rec.spent[a.Key]; ok && c.weight > 0 && !rec.given[a.Key] {
			rec.given[a.Key] = true
			if stored && c.of == m && !a.Limit.Algorithm.Traits().Slots && unmixed(c.under, a.Limit) {
				units = m.refund(a.Limit, now, c)
			}
		}
	}
	if slots, ok := m.(*slotModel); ok && id != "" {
		units = slots.release(a.Limit, now, id)
	}
	if id == "" && stored {
		for _, at := range m.lastSpent(a.Limit, now) {
			units += m.refund(a.Limit, now, charge{at: at, weight: a.Weight - units})
			if units >= a.Weight {
				break
			}
		}
	}
	d := figures(a.Limit, m, now)
	d.Refunded = units
	return d
}

// unmixed reports whether units charged under one limit can be separated from others under another: window, alignment
// and rate must be the same.
func unmixed(was, is limiter.Limit) bool {
	switch t := is.Algorithm.Traits(); {
	case t.Decay == limiter.DecayEach:
		return true
	case t.Instant:
		return was == is
	case t.Decay == limiter.DecayDrain:
		return was.Count == is.Count && was.Window == is.Window
	}
	was.Count = is.Count
	return was == is
}

func (r *Reference) settle(req *limiter.Request, now int64) limiter.Result {
	rec := r.records[nameOf(req)]
	answer := limiter.Result{Allowed: true, At: now}
	again := rec != nil && rec.settled != nil
	if again {
		answer.At, answer.Replayed = rec.settledAt, true
	} else if rec != nil {
		rec.settled, rec.settledAt = map[limiter.Key]limiter.Decision{}, now
	}
	for _, a := range req.Asks {
		answer.Limits = append(answer.Limits, r.settleOne(rec, again, a, now))
	}
	return answer
}

func (r *Reference) settleOne(rec *record, again bool, a limiter.Ask, now int64) limiter.Decision {
	m, stored := r.bucket(a)
	if rec == nil || again {
		if rec != nil {
			if d, ok := rec.settled[a.Key]; ok {
				d.Rate = a.Limit.Rate()
				return d
			}
		}
		m.rebase(a.Limit, now)
		d := figures(a.Limit, m, now)
		d.Allowed = rec != nil
		return d
	}
	m.rebase(a.Limit, now)
	named := slices.Contains(rec.order, a.Key)
	var units int64
	if named && !a.Look && !a.Limit.Algorithm.Traits().Slots {
		c := rec.spent[a.Key]
		if rec.given[a.Key] {
			c.weight = 0
		}
		switch {
		case a.Weight > c.weight:
			m.spend(a.Limit, now, a.Weight-c.weight, "")
			r.buckets[a.Key] = m
		case a.Weight < c.weight:
			if stored && c.of == m && unmixed(c.under, a.Limit) {
				units = m.refund(a.Limit, now, charge{at: c.at, weight: c.weight - a.Weight, base: a.Weight})
			}
			c.weight = a.Weight
			rec.spent[a.Key] = c
		}
	}
	d := figures(a.Limit, m, now)
	d.Refunded = units
	if named {
		rec.settled[a.Key] = d
	}
	return d
}

func (r *Reference) releaseOrRenew(op limiter.Op, id string, a limiter.Ask, now int64) limiter.Decision {
	m, _ := r.bucket(a)
	slots, ok := m.(*slotModel)
	if !ok {
		panic("not a concurrency bucket")
	}
	slots.rebase(a.Limit, now)
	var d limiter.Decision
	if op == limiter.OpRelease {
		units := slots.release(a.Limit, now, id)
		d = figures(a.Limit, m, now)
		d.Refunded = units
		return d
	}
	held := slots.renew(a.Limit, now, id)
	d = figures(a.Limit, m, now)
	d.Allowed = held
	return d
}
