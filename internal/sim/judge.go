package sim

import (
	"slices"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// plan is the store calls that one question requires, computed from the set without the Checker.
type plan struct {
	enforced []limiter.Ask
	modes    []string // fail mode of each enforced ask
	shadow   []limiter.Ask
}

func planOf(set *match.Set, q *decide.Question) (p plan) {
	if q.IsDirect {
		p.enforced = []limiter.Ask{{Key: match.DirectKey(q.Direct.Key, q.Direct.Limit), Limit: q.Direct.Limit,
			Weight: q.Weight}}
		p.modes = []string{q.Direct.FailMode}
		return p
	}
	// No rule of the simulation depends on the wall clock.
	matches := set.Match(&q.Descriptor, q.Weight, time.Time{}, nil)
	// Leases come last, and only if the operation applies to them.
	slices.SortStableFunc(matches, func(a, b match.Match) int { return rank(a) - rank(b) })
	for _, m := range matches {
		leases := rank(m) == 1
		switch {
		case leases && (q.Op == limiter.OpCharge || (q.Op == limiter.OpRefund && q.RequestID == "")):
		case !leases && (q.Op == limiter.OpRelease || q.Op == limiter.OpRenew):
		case m.Rule.Shadow:
			p.shadow = append(p.shadow, limiter.Ask{Key: m.Key, Limit: m.Limit, Weight: m.Weight})
		default:
			p.enforced = append(p.enforced, limiter.Ask{Key: m.Key, Limit: m.Limit, Weight: m.Weight})
			p.modes = append(p.modes, m.Rule.Rule.FailMode)
		}
	}
	return p
}

func rank(m match.Match) int {
	if m.Rule.Limit.Algorithm.Traits().Slots {
		return 1
	}
	return 0
}

// judge checks one answer against the actual results of its store calls.
func (w *world) judge(n *node, set *match.Set, q *decide.Question, a *decide.Answer, err error) error {
	p := planOf(set, q)
	sent, ok := n.link.next(&p)
	if !ok {
		return broken("node %d asks the store %+v, the rules say %+v", n.id, n.link.sent, p)
	}
	if w.opt.Tamper != nil && err == nil {
		w.opt.Tamper(a)
	}
	spends := q.Op == limiter.OpTake || q.Op == limiter.OpPeek
	var main *delivery
	if len(p.enforced) > 0 {
		main, sent = &sent[0], sent[1:]
	}
	if err != nil || (main != nil && main.err != nil && !spends) {
		if spends || main == nil || main.err == nil || err == nil {
			return broken("node %d: error %v for %s", n.id, err, q.Op)
		}
		n.heard.degraded = n.heard.degraded[1:]
		w.say("  answer: %v", err)
		return nil
	}
	w.say("  answer: %s degraded=%q replayed=%v", a.Verdict, a.Degraded, a.Replayed)
	if len(a.Limits) != len(p.enforced)+len(p.shadow) {
		return broken("node %d: %d limits in the answer, %d apply", n.id, len(a.Limits), len(p.enforced)+len(p.shadow))
	}
	switch {
	case main == nil:
		err = checkNoLimits(a)
	case main.err == nil:
		n.heard.expect(q, &p, main, nil)
		err = w.checkStoreAnswer(q, a, main, len(p.enforced))
	default:
		err = w.checkFailModes(n, q, a, main, &p)
	}
	if err != nil {
		return err
	}
	return n.judgeShadows(a.Limits[len(p.enforced):], sent)
}

// next removes the deliveries of one plan from the link's list.
func (l *link) next(p *plan) ([]delivery, bool) {
	count := len(p.shadow)
	if len(p.enforced) > 0 {
		count++
	}
	if len(l.sent) < count {
		return nil, false
	}
	sent := l.sent[:count]
	l.sent = l.sent[count:]
	rest := sent
	if len(p.enforced) > 0 {
		if !slices.Equal(rest[0].req.Asks, p.enforced) {
			return nil, false
		}
		rest = rest[1:]
	}
	for i := range rest {
		if !slices.Equal(rest[i].req.Asks, p.shadow[i:i+1]) {
			return nil, false
		}
	}
	return sent, true
}

// checkNoLimits checks that a request without an enforced limit passes.
func checkNoLimits(a *decide.Answer) error {
	if !a.Allowed() || a.Degraded != "" {
		return broken("denied or degraded though no enforced limit applies: %+v", *a)
	}
	return nil
}

// checkStoreAnswer checks that the answer equals the answer of the store.
func (w *world) checkStoreAnswer(q *decide.Question, a *decide.Answer, main *delivery, enforced int) error {
	want := main.res.Allowed || q.Op == limiter.OpRefund || q.Op == limiter.OpReset
	switch {
	case a.Allowed() != want:
		return broken("the store says allowed=%v, the answer %s", want, a.Verdict)
	case !want && a.Verdict != decide.Denied:
		return broken("denied by the store, and the answer says %s", a.Verdict)
	case a.Degraded != "":
		return broken("marked degraded %q though the store decided", a.Degraded)
	case a.Replayed != main.res.Replayed:
		return broken("replayed=%v, the store says %v", a.Replayed, main.res.Replayed)
	}
	for i := range enforced {
		la := &a.Limits[i]
		if la.Shadow || !la.Known || la.Degraded != "" || la.Decision != main.res.Limits[i] {
			return broken("limit %s answers %+v, the store said %+v", la.Key, *la, main.res.Limits[i])
		}
	}
	if q.Op == limiter.OpTake && a.Allowed() && !a.Replayed {
		w.sums.store += units(main.req.Asks)
	}
	return nil
}

// judgeShadows checks that shadow limits have the store's decision, or allow, and did not affect
// the answer.
func (n *node) judgeShadows(las []decide.LimitAnswer, sent []delivery) error {
	for i := range las {
		la := &las[i]
		switch {
		case !la.Shadow:
			return broken("shadow limit %s is not marked", la.Key)
		case sent[i].err == nil && (!la.Known || la.Degraded != "" || la.Decision != sent[i].res.Limits[0]):
			return broken("shadow limit %s answers %+v, the store said %+v", la.Key, *la, sent[i].res.Limits[0])
		case sent[i].err != nil && (la.Known || la.Degraded != rules.FailOpen || !la.Decision.Allowed):
			return broken("shadow limit %s answers %+v though the store could not decide", la.Key, *la)
		case sent[i].err != nil:
			if err := n.reported("", sent[i].err); err != nil {
				return err
			}
		}
	}
	return nil
}

// reported checks the Checker's next report.
func (n *node) reported(mode string, err error) error {
	want := decide.Degraded{FailMode: mode, Cause: limiter.CauseOf(err)}
	if len(n.heard.degraded) == 0 || n.heard.degraded[0] != want {
		return broken("node %d reports %v, expected %v", n.id, n.heard.degraded, want)
	}
	n.heard.degraded = n.heard.degraded[1:]
	return nil
}

// units returns the weight of all asks except leases.
func units(asks []limiter.Ask) (n int64) {
	for i := range asks {
		if !asks[i].Limit.Algorithm.Traits().Slots {
			n += asks[i].Weight
		}
	}
	return n
}
