package sim

import (
	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// checkFailModes checks an answer that the store could not decide. Closed never admits.
// Otherwise the node's own store decides if any limit is local, and if none is, the request
// passes.
func (w *world) checkFailModes(n *node, q *decide.Question, a *decide.Answer, main *delivery, p *plan) error {
	var local []int
	for i, mode := range p.modes {
		la := &a.Limits[i]
		if la.Degraded != mode || la.Shadow {
			return broken("limit %s: degraded %q, its rule fails %s", la.Key, la.Degraded, mode)
		}
		if mode == rules.FailLocal {
			local = append(local, i)
		}
		if mode == rules.FailClosed && la.Decision.Allowed {
			return broken("limit %s: closed, yet it allows", la.Key)
		}
		if err := n.reported(mode, main.err); err != nil {
			return err
		}
	}
	closed := p.closed()
	own, err := w.ownAnswer(n, q, a, local, closed)
	if err != nil {
		return err
	}
	verdict, degraded := decide.Allowed, rules.FailOpen
	if own != nil {
		degraded = rules.FailLocal
		if !own.Allowed {
			verdict = decide.Denied
		}
	}
	if closed {
		verdict, degraded = decide.Unavailable, rules.FailClosed
	}
	if a.Verdict != verdict || a.Degraded != degraded {
		return broken("fail modes %v give %s, degraded %q; the answer says %s, %q", p.modes, verdict, degraded, a.Verdict,
			a.Degraded)
	}
	n.heard.expect(q, p, main, own)
	w.degraded(q, a, p, own)
	return nil
}

// ownAnswer checks the request to the node's own store: it has exactly the local limits, and only
// looks if the request is denied anyway.
func (w *world) ownAnswer(n *node, q *decide.Question, a *decide.Answer, local []int,
	closed bool) (*limiter.Result, error) {
	if len(local) == 0 {
		return nil, nil
	}
	if len(n.own.asks) == 0 {
		return nil, broken("node %d has local limits and did not ask its own store", n.id)
	}
	d := n.own.asks[0]
	n.own.asks = n.own.asks[1:]
	if d.err != nil {
		return nil, broken("node %d's own store: %w", n.id, d.err)
	}
	want := q.Op
	if closed {
		want = limiter.OpPeek
	}
	if d.req.Op != want || len(d.req.Asks) != len(local) {
		return nil, broken("node %d asks its own store to %s %d limits, expected %s %d", n.id, d.req.Op, len(d.req.Asks),
			want, len(local))
	}
	for k, i := range local {
		la := &a.Limits[i]
		if d.req.Asks[k].Key != la.Key || !la.Known || la.Decision != d.res.Limits[k] {
			return nil, broken("local limit %s answers %+v, the node's own store said %+v", la.Key, *la, d.res.Limits[k])
		}
	}
	return &d.res, nil
}

// degraded counts the units that a degraded answer admitted: those charged locally and those not
// charged at all.
func (w *world) degraded(q *decide.Question, a *decide.Answer, p *plan, own *limiter.Result) {
	if q.Op != limiter.OpTake || !a.Allowed() {
		return
	}
	for i := range p.enforced {
		n := units(p.enforced[i : i+1])
		switch {
		case p.modes[i] != rules.FailLocal:
			w.sums.open += n
		case !own.Replayed:
			w.sums.local += n
		}
	}
}
