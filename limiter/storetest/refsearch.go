package storetest

import (
	"math/big"

	"sluice/limiter"
)

// model is one bucket of the reference. Times are ms on the store's clock.
// Only rebase, spend and refund change it.
type model interface {
	// rebase moves a stored time back to now if it is further ahead than the
	// algorithm remembers.
	rebase(l limiter.Limit, now int64)
	// level is the consumption held at t, in units.
	level(l limiter.Limit, t int64) *big.Rat
	// spend books w at now and returns the time it was booked at.
	spend(l limiter.Limit, now, w int64, id string) int64
	// refund gives back the part of c that still counts, in whole units.
	refund(l limiter.Limit, now int64, c charge) int64
	// lastSpent lists the times of what was spent, newest first.
	lastSpent(l limiter.Limit, now int64) []int64
}

func newModel(l limiter.Limit) model {
	switch l.Algorithm {
	case limiter.FixedWindow:
		return &fixedModel{}
	case limiter.SlidingWindowLog:
		return &logModel{}
	case limiter.SlidingWindowCounter:
		return &counterModel{}
	case limiter.SlidingWindowBuckets:
		return &bucketsModel{}
	case limiter.GCRA:
		return &gcraModel{}
	case limiter.Concurrency:
		return &slotModel{}
	case limiter.TokenBucket, limiter.LeakyBucket, limiter.LeakyQueue:
		return &levelModel{}
	}
	panic("the reference has no model of " + l.Algorithm.String())
}

// forever is longer than every wait of a valid limit, ms.
const forever = int64(1) << 54

// admits is the definition: level(t) + w <= capacity.
func admits(l limiter.Limit, m model, t, w int64) bool {
	return plus(m.level(l, t), w).Cmp(whole(l.Capacity())) <= 0
}

// admit decides weight w at now and finds the wait by search.
func admit(l limiter.Limit, m model, now, w int64, id string) limiter.Decision {
	d := limiter.Decision{Allowed: admits(l, m, now, w), Limit: l.Capacity(), Rate: l.Rate()}
	if slots, ok := m.(*slotModel); ok && w > 0 && slots.holds(l, now, id) {
		d.Allowed = true
	}
	if !d.Allowed {
		d.RetryAfter = limiter.Never
		if w <= l.Capacity() {
			d.RetryAfter = smallest(1, func(wait int64) bool { return admits(l, m, now+wait, w) })
		}
	}
	if l.Algorithm.Traits().Queues {
		d.Delay = queueDelay(l, m, now, d.Allowed)
	}
	return d
}

// queueDelay is how long the queue before the request takes to drain.
func queueDelay(l limiter.Limit, m model, now int64, allowed bool) int64 {
	if !allowed {
		return limiter.Never
	}
	level := m.level(l, now)
	if level.Sign() == 0 {
		return 0
	}
	if l.Count == 0 {
		return limiter.Never
	}
	return ceil(over(times(level, l.Window), l.Count))
}

// figures finds remaining and reset at now by search.
func figures(l limiter.Limit, m model, now int64) limiter.Decision {
	d := limiter.Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate()}
	lo, hi := int64(0), l.Capacity()
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if admits(l, m, now, mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	d.Remaining = lo
	d.Used = ceil(lesser(m.level(l, now), mostUsed(l)))
	d.Reset = smallest(0, func(wait int64) bool { return m.level(l, now+wait).Sign() == 0 })
	return d
}

// mostUsed is the most that Decision.Used says.
func mostUsed(l limiter.Limit) *big.Rat {
	switch l.Algorithm.Traits().Decay {
	case limiter.DecaySliding, limiter.DecayDrain:
		return most(l)
	}
	return whole(limiter.MaxExact)
}

// smallest returns the least d >= from for which ok is true, if ok is monotonic;
// limiter.Never if there is none before forever.
func smallest(from int64, ok func(d int64) bool) int64 {
	if ok(from) {
		return from
	}
	lo, hi := from, max(1, 2*from) // ok(lo) is false
	for !ok(hi) {
		if hi > forever {
			return limiter.Never
		}
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if ok(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

func whole(n int64) *big.Rat             { return new(big.Rat).SetInt64(n) }
func plus(r *big.Rat, n int64) *big.Rat  { return new(big.Rat).Add(r, whole(n)) }
func times(r *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(r, whole(n)) }
func over(r *big.Rat, n int64) *big.Rat  { return new(big.Rat).Quo(r, whole(n)) }
func minus(a, b *big.Rat) *big.Rat       { return new(big.Rat).Sub(a, b) }
func atLeastZero(r *big.Rat) *big.Rat    { return later(r, new(big.Rat)) }
func fraction(num, denom int64) *big.Rat { return over(whole(num), denom) }
func floorOf(num, denom int64) int64     { return floor(fraction(num, denom)) }
func ceil(r *big.Rat) int64              { return -floor(new(big.Rat).Neg(r)) }
func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func later(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

// roundUp returns the smallest multiple of 1/n that is at least r.
func roundUp(r *big.Rat, n int64) *big.Rat {
	scaled := times(r, n)
	down := new(big.Int).Div(new(big.Int).Neg(scaled.Num()), scaled.Denom())
	return over(new(big.Rat).SetInt(down.Neg(down)), n)
}

func floor(r *big.Rat) int64 {
	// Euclidean division by a positive denominator rounds down.
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}
