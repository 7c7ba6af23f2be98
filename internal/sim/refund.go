package sim

import (
	"fmt"

	"sluice/limiter"
)

// checkRefundHistory checks that a named refund never leaves less in a bucket than if its charge
// had not happened. It replays the books without the charge. It checks only refunds that can
// still distinguish the units of their charge: not after an edit that changes how units are
// placed or drain, a reset, a backward step of the clock or a refund without a name, and not
// after a charge that exceeded a gcra bucket, which drops what does not fit.
func (a *audit) checkRefundHistory(e *entry) error {
	for i := range a.req.Asks {
		if e.of < 0 || !e.claims[i] || e.moved[i] == 0 || lease(a.req, i) {
			continue
		}
		key := a.req.Asks[i].Key
		s, known := a.bank.without(key, e.of, a.req.Asks[i].Limit)
		if !known {
			continue
		}
		ask := limiter.Ask{Key: key, Limit: a.req.Asks[i].Limit}
		if most := look(s, ask, "", a.now).Remaining; a.post[i].Remaining > most {
			return fmt.Errorf("bucket %s (%s): %d units remain after the refund, %d if the charge of %d had never been",
				key, ask.Limit.Algorithm, a.post[i].Remaining, most, e.moved[i])
		}
	}
	return nil
}

// shape is the part of a limit that determines how units are placed and drain. After an edit of
// the rest, a refund can still distinguish its units.
func shape(l limiter.Limit) limiter.Limit {
	switch t := l.Algorithm.Traits(); {
	case t.Decay == limiter.DecayAtOnce || t.Decay == limiter.DecaySliding:
		l.Count = 0
	case t.Decay == limiter.DecayDrain && !t.Instant:
		l.Algorithm, l.Burst = limiter.TokenBucket, 0
	}
	return l
}

// without replays a bucket's books without entry n.
func (b *bank) without(key limiter.Key, n int, now limiter.Limit) (*limiter.State, bool) {
	s := &limiter.State{}
	if b.books.mixed[key] > n {
		return nil, false
	}
	last := now
	cut := 0 // the first entry from which named refunds can distinguish their units
	for j := range b.books.entries {
		e := &b.books.entries[j]
		k := e.ask(key)
		if k < 0 {
			continue
		}
		l, at := e.req.Asks[k].Limit, e.res.At
		if e.epoch != b.epoch || (j >= n && (shape(l) != shape(now) || e.spilled)) || (e.of >= 0 && e.of < cut) {
			return nil, false
		}
		if e.req.Op == limiter.OpReset || shape(l) != shape(last) {
			cut, last = j, l
		}
		if j == n || e.of == n {
			continue
		}
		switch {
		case e.req.Op == limiter.OpRefund && e.of < 0:
			return nil, false
		case e.req.Op == limiter.OpReset && j > n:
			return nil, false
		case e.req.Op == limiter.OpReset:
			*s = limiter.State{}
		case e.req.Op == limiter.OpRefund && e.claims[k]:
			first := &b.books.entries[e.of]
			limiter.Refund(l, s, at, limiter.Charged{At: first.res.At, Weight: first.req.Asks[first.ask(key)].Weight})
		case e.moved[k] > 0 && e.req.Op != limiter.OpRefund:
			ask := []limiter.Ask{{Key: key, Limit: l, Weight: e.moved[k]}}
			limiter.Decide(limiter.OpCharge, ask, "", []*limiter.State{s}, at, make([]bool, 1), make([]limiter.Decision, 1),
				make([]limiter.Charged, 1))
		}
	}
	return s, true
}
