package decide

import (
	"sluice/limiter"
	"sluice/rules/match"
)

// ModeCandidate is the mode of a candidate in answers and metrics: a second limit of a rule that is evaluated in
// addition to the enforced one.
const ModeCandidate = "candidate"

// plannedPool is one pool that limits of a call count into. A request counts
// into a pool once, with the largest weight of its rules there.
type plannedPool struct {
	pool   *match.CompiledPool
	weight int64
	// look: nothing is counted, because no enforced rule of the call spends.
	look bool
	// needsRoom: the call is allowed only if share has room. Otherwise the pool
	// counts and never denies.
	needsRoom bool
	share     limiter.Limit
	shedding
}

// counting returns the limit of a pool that only counts: it denies nothing and counts up to the largest possible limit.
func counting(pool *match.CompiledPool) limiter.Limit {
	return limiter.Limit{
		Algorithm: limiter.Tally, Count: limiter.MaxExact / pool.Limit.Window, Window: pool.Limit.Window,
	}
}

// ask returns the pool's part in a first attempt.
func (p *plannedPool) ask() limiter.Ask {
	l := counting(p.pool)
	switch {
	case p.full():
		return p.fullAsk()
	case p.needsRoom:
		l = p.share
	}
	return limiter.Ask{Key: p.pool.Key, Limit: l, Weight: p.weight, Look: p.look}
}

// throttle adds its rule's throttle and pool to the limit that was planned last.
func (w *work) throttle(p *plan, r *match.Compiled) {
	l := &w.limits[len(w.limits)-1]
	percent := r.SoftPercent
	if r.ElasticPercent > 0 {
		percent = r.ElasticPercent
	}
	l.spare = l.limit.Spare(percent)
	if l.former != nil {
		*l.former = l.former.Raise(percent)
	}
	l.elastic = r.ElasticPercent > 0 && l.spare > 0
	if r.Pool != nil {
		w.pool(p, l, r)
	}
}

// pool plans how a limit uses its rule's pool. Shadow rules and candidates only look, and only
// if they are elastic or, for a shadow rule, if the pool sheds.
func (w *work) pool(p *plan, l *plannedLimit, r *match.Compiled) {
	apart := r.Shadow || l.candidate
	sheds := r.Pool.Pool.Shed && !l.candidate
	switch p.q.Op {
	case limiter.OpTake, limiter.OpPeek:
		if apart && !l.elastic && !sheds {
			return
		}
	case limiter.OpCharge, limiter.OpRefund:
		if apart {
			return
		}
		sheds = false
	default:
		return
	}
	look := apart || l.spends(p.q.Op) == 0
	if !apart {
		for i := p.pools; i < len(w.pools); i++ {
			if known := &w.pools[i]; known.pool == r.Pool {
				known.join(l.weight, look)
				if sheds {
					known.shed(r.Priority, w.loads)
				}
				l.pool = int32(i + 1) //nolint:gosec // a place in a list of at most MaxLimits a question
				return
			}
		}
	}
	w.pools = append(w.pools, plannedPool{pool: r.Pool, weight: l.weight, look: look})
	if sheds {
		w.pools[len(w.pools)-1].shed(r.Priority, w.loads)
	}
	l.pool = int32(len(w.pools)) //nolint:gosec // as above
}

// join adds another limit of the same request. The weights of limits that spend count before the weights of limits that
// look.
func (p *plannedPool) join(weight int64, look bool) {
	switch {
	case p.look == look:
		p.weight = max(p.weight, weight)
	case p.look:
		p.weight, p.look = weight, false
	}
}

// poolOf returns the pool of a limit that has its own call, if any.
func (w *work) poolOf(limit int) []plannedPool {
	n := int(w.limits[limit].pool)
	if n == 0 {
		return nil
	}
	return w.pools[n-1 : n]
}
