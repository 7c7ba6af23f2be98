package decide

import (
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// plannedDescriptor is what a limit is for the descriptor that it came with.
type plannedDescriptor struct {
	sent  bool // the limit came with the descriptor and replaces the rule's
	quota bool // it denies only if all quotas of the call do
	full  bool // such a quota that has no room and does not deny
	// after is used while statuses are written: the units of the later descriptors of the bucket.
	after int64
}

// The groups of descriptors, in the order of their limits; see Checker.DoDescriptors.
const (
	askedTogether = iota // takes, all in one request to the store
	askedQuota           // takes of quotas
	askedAlone           // reports, refunds and releases
	askedShadow
	askedGroups
)

// addDescriptors plans a call of descriptors under a set. It fills the statuses except for Over and
// Remaining.
func (w *work) addDescriptors(q *DescriptorQuestion, set *match.Set, now time.Time, a *DescriptorAnswer) {
	replaces := false
	clear(w.matches)
	w.matches, a.Statuses = w.matches[:0], a.Statuses[:0]
	for i := range q.Descriptors {
		d, st := &q.Descriptors[i], DescriptorStatus{Limit: -1}
		m, ok := set.MatchEntries(q.Domain, d.Entries, now)
		switch {
		case d.Limit != nil && (ok || set.HasDomain(q.Domain)):
			st.State = StateLimited
			if !ok {
				m.Key = set.EntriesKey(q.Domain, d.Entries)
			}
			if !m.Override.Blocked {
				m.Key, m.Limit = d.Limit.replace(m.Key, m.Limit)
				d.Limit.replaceFormer(&m)
			}
		case !ok:
		case m.Unlimited():
			st.State = StateUnlimited
			replaces = replaces || len(m.Rule.Rule.Replaces) > 0
		default:
			st.State = StateLimited
			replaces = replaces || len(m.Rule.Rule.Replaces) > 0
		}
		st.Rule = m.Rule
		w.matches, a.Statuses = append(w.matches, m), append(a.Statuses, st)
	}
	if replaces {
		w.replace(q, a)
	}
	w.planDescriptors(q, a)
}

// replace finds the descriptors whose rule is named by the rule of another. A limit that was sent
// is not part of it.
func (w *work) replace(q *DescriptorQuestion, a *DescriptorAnswer) {
	for i := range w.matches {
		if a.Statuses[i].State != StateLimited || q.Descriptors[i].Limit != nil {
			continue
		}
		name := w.matches[i].Rule.Rule.Name
		for k := range w.matches {
			if r := w.matches[k].Rule; r != nil && q.Descriptors[k].Limit == nil && slices.Contains(r.Rule.Replaces, name) {
				a.Statuses[i].State = StateReplaced
			}
		}
	}
}

// planDescriptors plans the limits of the descriptors that have one, and their calls.
func (w *work) planDescriptors(q *DescriptorQuestion, a *DescriptorAnswer) {
	p := plan{op: limiter.OpTake, first: len(w.limits), from: len(w.calls)}
	var exist [askedGroups]bool
	candidates, undoable, returned, others := false, false, false, false
	for i := range a.Statuses {
		if a.Statuses[i].State != StateLimited {
			continue
		}
		d, m := &q.Descriptors[i], &w.matches[i]
		op := d.op(m.Rule, &m.Limit, q.Look)
		exist[d.group(m, op)] = true
		candidates = candidates || d.Limit == nil && m.Rule.Candidate != nil
		undoable = undoable || d.isQuota(m, op) || op == limiter.OpCharge
		returned, others = returned || returns(op), others || !returns(op)
	}
	switch {
	case q.Look:
		p.op = limiter.OpPeek
	case returned && !others:
		p.op = limiter.OpRefund
	}
	for group, there := range exist {
		if !there {
			continue
		}
		w.planGroup(&p, q, a, group)
		if group != askedTogether {
			continue
		}
		for i := range w.limits[p.first:] { // planned whole, because descriptors of one bucket add up
			l := &w.limits[p.first+i]
			p.hasLeases = p.hasLeases || l.limit.Algorithm.Traits().Slots && l.weight > 0
		}
		id := "" // of leases, and to undo
		if p.op == limiter.OpTake && (p.hasLeases || undoable) {
			id = randomID()
		}
		w.addCall(p.op, id, w.limits[p.first:], nil)
	}
	if candidates {
		w.planTrials(&p, q, a)
	}
	p.end, p.to = len(w.limits), len(w.calls)
	for i := p.from; i < p.to; i++ {
		req := &w.calls[i].Request
		req.Unrepeated, req.Gone = req.ID != "", q.Gone
	}
	w.hurry(&p, p.enforced+p.alone)
	w.plans = append(w.plans, p)
}

// planGroup plans the limits of one group, and their calls unless they have one together.
func (w *work) planGroup(p *plan, q *DescriptorQuestion, a *DescriptorAnswer, group int) {
	for i := range a.Statuses {
		if a.Statuses[i].State != StateLimited {
			continue
		}
		d, m := &q.Descriptors[i], &w.matches[i]
		op := d.op(m.Rule, &m.Limit, q.Look)
		if d.group(m, op) != group {
			continue
		}
		if group == askedTogether && w.join(p.first, d.units(q.Look), m, &a.Statuses[i]) {
			continue
		}
		a.Statuses[i].Limit = len(w.limits) - p.first
		l := plannedLimit{key: m.Key, limit: m.Limit, former: formerOf(m), failMode: rules.FailOpen, weight: d.units(q.Look),
			blocked: m.Override.Blocked, plannedDescriptor: plannedDescriptor{sent: d.Limit != nil, quota: d.isQuota(m, op)}}
		if m.Rule != nil {
			l.rule, l.failMode = m.Rule, m.Rule.Rule.FailMode
			if !l.sent {
				l.ban = banOf(m, op)
			}
		}
		w.limits = append(w.limits, l)
		if m.Rule != nil && m.Rule.SoftPercent > 0 && !l.sent {
			w.throttle(p, m.Rule)
		}
		switch group {
		case askedTogether:
			p.enforced++
			continue
		case askedQuota:
			p.quotas, p.alone = p.quotas+1, p.alone+1
			p.quotasLater = p.enforced > 0 && !q.Look
			w.hasQuotas = w.hasQuotas || p.quotasLater
		case askedAlone:
			p.alone++
		}
		w.addAlone(q, op, group == askedQuota && p.quotasLater)
	}
}

// addAlone adds the call of the limit that was planned last. Of one that is taken later, it only
// looks.
func (w *work) addAlone(q *DescriptorQuestion, op limiter.Op, later bool) {
	limit, id := w.limits[len(w.limits)-1:], ""
	if op == limiter.OpTake && limit[0].limit.Algorithm.Traits().Slots {
		id = randomID()
	}
	if q.Look || later {
		op = limiter.OpPeek
	}
	w.addCall(op, id, limit, nil)
}

// join adds units to a limit of the call that was planned for the same bucket; its limits begin with first. If the
// limits differ, because one was sent, the smaller one applies. It reports whether there is such a limit.
func (w *work) join(first int, units int64, m *match.Match, st *DescriptorStatus) bool {
	limits := w.limits[first:]
	for i := range limits {
		l := &limits[i]
		if l.key != m.Key {
			continue
		}
		l.weight = min(l.weight+units, limiter.MaxExact)
		if m.Limit.Count < l.limit.Count {
			l.limit = m.Limit
		}
		st.Limit = i
		return true
	}
	return false
}

// planTrials plans the candidates of the rules whose own limit applies.
func (w *work) planTrials(p *plan, q *DescriptorQuestion, a *DescriptorAnswer) {
	for i := range a.Statuses {
		d, m := &q.Descriptors[i], &w.matches[i]
		if a.Statuses[i].State != StateLimited || d.Limit != nil {
			continue
		}
		key, limit, ok := m.Candidate()
		if !ok {
			continue
		}
		w.limits = append(w.limits, plannedLimit{rule: m.Rule, key: key, limit: limit, failMode: m.Rule.Rule.FailMode,
			weight: d.units(q.Look), candidate: true})
		w.throttle(p, m.Rule)
		w.addAlone(q, d.op(m.Rule, &limit, q.Look), false)
	}
}

// op returns the operation on a descriptor's limit. A look is part of the takes.
func (d *AskedDescriptor) op(r *match.Compiled, l *limiter.Limit, look bool) limiter.Op {
	slots := l.Algorithm.Traits().Slots
	switch {
	case look || d.Addend == 0:
		return limiter.OpTake
	case d.Negative && slots:
		return limiter.OpRelease
	case d.Negative:
		return limiter.OpRefund
	case d.Explicit && r != nil && r.ChargeExplicit && !slots:
		return limiter.OpCharge
	}
	return limiter.OpTake
}

// units returns the weight of a descriptor. A look at a refund has no weight.
func (d *AskedDescriptor) units(look bool) int64 {
	if look && d.Negative {
		return 0
	}
	return d.Addend
}

// group returns the group of a descriptor that a limit applies to.
func (d *AskedDescriptor) group(m *match.Match, op limiter.Op) int {
	switch {
	case d.Limit == nil && m.Rule.Shadow:
		return askedShadow
	case op != limiter.OpTake:
		return askedAlone
	case d.isQuota(m, op):
		return askedQuota
	}
	return askedTogether
}

// isQuota reports whether a descriptor takes or charges a quota. A block is not up to other quotas.
func (d *AskedDescriptor) isQuota(m *match.Match, op limiter.Op) bool {
	return d.Limit == nil && m.Rule.Rule.Quota && !m.Rule.Shadow && !m.Override.Blocked && !returns(op)
}

// replace returns the bucket and the limit of a descriptor with this limit in place of l.
func (s *SentLimit) replace(key limiter.Key, l limiter.Limit) (limiter.Key, limiter.Limit) {
	fixed := limiter.Limit{Algorithm: limiter.FixedWindow, Count: min(max(s.Count, 0), limiter.MaxExact),
		Window: min(max(s.Window, 1), limiter.MaxWindow)}
	if !l.Algorithm.Exists() {
		return key, fixed
	}
	sent := limiter.Limit{Algorithm: l.Algorithm, Count: fixed.Count, Window: fixed.Window}
	switch l.Algorithm.Traits().Setting {
	case limiter.SettingAlign:
		sent.Align = l.Align
	case limiter.SettingBurst:
		sent.Burst = sent.Count
	case limiter.SettingBuckets:
		sent.Buckets = min(limiter.DefaultBuckets, sent.Window)
	}
	if sent.Validate() == nil {
		return key, sent
	}
	// Another algorithm may store another kind of state.
	if at := strings.LastIndexByte(string(key), '|'); at >= 0 {
		key = key[:at+1] + limiter.Key(limiter.FixedWindow.Kind())
	}
	return key, fixed
}

// replaceFormer puts this limit in place of the former one of a match whose limit it has replaced. There is none if
// both count in one bucket.
func (s *SentLimit) replaceFormer(m *match.Match) {
	if m.Former == nil {
		return
	}
	_, m.Former.Limit = s.replace(m.Key, m.Former.Limit)
	if !limiter.Movable(m.Former.Limit, m.Limit) {
		m.Former = nil
	}
}
