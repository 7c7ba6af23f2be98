package sim

import (
	"sluice/limiter"
	"sluice/rules/match"
)

// randomEvent performs a random event: mostly a request of the client, sometimes a fault.
func (w *world) randomEvent() error {
	switch n := w.rng.IntN(200); {
	case n < 154:
		return w.client.act()
	case n < 160:
		return w.reconcileOne()
	case n < 164:
		w.downUntil = w.now + w.rng.Int64N(1500)
		w.say("store down for %d ms", w.downUntil-w.now)
	case n < 170:
		w.faultPercent = pick(w.rng, []int{0, 5, 20, 60})
		w.say("%d percent of round trips fail", w.faultPercent)
	case n < 176:
		k := w.server.failover(w.rng.IntN(9))
		w.say("failover: the last %d writes are lost", k)
	case n < 182:
		return w.stepClock()
	case n < 183:
		w.server.flush()
		w.say("the store is emptied")
	case n < 194:
		return w.editRule()
	default:
		return w.crash()
	}
	return nil
}

// causesOfRefusal lists the causes of a reachable store that does not serve.
var causesOfRefusal = []limiter.Cause{
	limiter.CauseConnection, limiter.CauseReadOnly, limiter.CauseLoading, limiter.CauseMemory, limiter.CauseAuth,
	limiter.CauseCluster, limiter.CauseBusy, limiter.CauseBreaker,
}

// fate draws the outcome of a round trip.
func (w *world) fate() (fate, limiter.Cause) {
	if w.now < w.downUntil {
		return refused, pick(w.rng, causesOfRefusal)
	}
	if w.rng.IntN(100) >= w.faultPercent {
		return arrives, ""
	}
	switch w.rng.IntN(5) {
	case 0:
		return refused, pick(w.rng, causesOfRefusal)
	case 1:
		return lost, limiter.CauseTimeout
	case 2:
		return late, limiter.CauseTimeout
	}
	return replyLost, pick(w.rng, []limiter.Cause{limiter.CauseTimeout, limiter.CauseConnection})
}

// stepClock steps the shared store's clock. A step back must not return units at that instant.
func (w *world) stepClock() error {
	by := pick(w.rng, []int64{1, 20, 300, 3000, 3_600_000})
	by = 1 + w.rng.Int64N(by)
	if w.rng.IntN(2) == 0 {
		by = -by
		w.server.epoch++
	}
	w.skew += by
	w.say("the store's clock steps by %d ms", by)
	return w.server.balance()
}

// editRule changes a rule. Every node learns of it within a second, at a different time.
func (w *world) editRule() error {
	r := w.book.edit(w.rng)
	set, err := w.book.compile()
	if err != nil {
		return broken("an edit of %+v does not compile: %w", *r, err)
	}
	w.say("rule %d is edited: %s, %d per %d ms, %s", r.ID, r.Algorithm, r.Limit, r.WindowMS, r.FailMode)
	for _, n := range w.nodes {
		w.later(w.rng.Int64N(1000), func() error { return n.swap(set) })
	}
	return nil
}

// swap puts a set in force unless a newer one is in force.
func (n *node) swap(set *match.Set) error {
	if !n.down && n.sets.Load().Version() < set.Version() {
		n.sets.Store(set)
		n.w.say("node %d: rules version %d", n.id, set.Version())
	}
	return nil
}

// crash stops a node, which restarts empty after a while.
func (w *world) crash() error {
	n := pick(w.rng, w.nodes)
	if n.down {
		return nil
	}
	w.say("node %d crashes", n.id)
	w.later(w.rng.Int64N(800), func() error {
		w.say("node %d starts", n.id)
		return n.boot()
	})
	return n.crash()
}
