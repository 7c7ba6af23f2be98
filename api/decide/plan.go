package decide

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// work is the memory of one call of the Checker: a plan for each question, their limits, and
// the store calls that decide them. It is pooled, and nothing in it is used after the call.
type work struct {
	plans      []plan
	calls      []limiter.Call
	limits     []plannedLimit
	pools      []plannedPool
	matches    []match.Match
	again      []limiter.Call // second attempts, see retryElastic
	retried    []retry
	hasElastic bool // some plan may need a second attempt
	hasQuotas  bool // some plan has quotas that are decided after its other limits, see takeQuotas
	decision   Decision
	loads      *Loads // the checker's
}

// plan holds the limits of one question and the calls of the store that decide it. The enforced limits, if there are
// any, are decided by its first call, all together and with the pools that they count into. Each shadow limit and each
// candidate has a separate call.
//
// A call of descriptors is one plan without a question. Its enforced limits that are not taken together follow the
// others, each with a separate call: first the quotas, then the charges and refunds.
type plan struct {
	q           *Question
	first       int  // in work.limits
	enforced    int  // how many from first on
	alone       int  // the number of following enforced limits with separate calls
	quotas      int  // how many of these are quotas that are taken
	quotasLater bool // after the other limits, see takeQuotas
	end         int
	pools       int // the number of pools of the enforced limits in work.pools
	poolsEnd    int
	from, to    int        // in work.calls
	hasLeases   bool       // any limit is concurrency
	hasElastic  bool       // any limit is elastic, counts into a pool, or is a meter
	failsLocal  bool       // an enforced limit has fail mode local
	forReports  bool       // a charge or refund of the limits that are charged by report
	op          limiter.Op // of a call of descriptors as a whole
	outcome, by string
	id          string // the id of the store's records, "" for none
	grant       granted
}

// plannedLimit is one limit of a question.
type plannedLimit struct {
	rule *match.Compiled // nil for a direct limit
	name string          // of one of several direct limits
	key  limiter.Key
	// limit is what the answer shows, unless the store knows a part of it; storeLimit is what the store enforces.
	limit limiter.Limit
	// former is the limit that the bucket had before an edit of the algorithm, with the units of the rule's throttle
	// above it; nil for none.
	former   *limiter.Limit
	failMode string
	weight   int64
	// ask is the index of its ask in its call.
	ask       int
	look      bool // a take spends nothing here
	candidate bool
	blocked   bool // an override denies the key, even if the store cannot decide
	// conditionFailed is copied from match.Match.
	conditionFailed bool
	plannedBan
	plannedThrottle
	plannedDescriptor
}

// storeLimit returns the limit that the store enforces at the first attempt.
func (p *plannedLimit) storeLimit() limiter.Limit {
	switch {
	case p.elastic:
		return p.limit.Sparing(p.spare)
	case p.spare == 0:
		return p.limit
	}
	return p.limit.Widen(p.spare)
}

// spends returns the number of units that a successful operation spends of the limit.
func (p *plannedLimit) spends(op limiter.Op) int64 {
	if p.look && op == limiter.OpTake {
		return 0
	}
	return p.weight
}

// mode returns the limit's mode for metrics.
func (p *plannedLimit) mode() string {
	switch {
	case p.candidate:
		return ModeCandidate
	case p.rule != nil && p.rule.Shadow && !p.sent:
		return rules.ModeShadow
	}
	return rules.ModeEnforce
}

// asked returns the ask of the limit as the store has decided it, or would have.
func (p *plannedLimit) asked(call *limiter.Call) limiter.Ask {
	if part := call.Result.Part(p.ask); part != nil {
		return part.Asked
	}
	return call.Request.Asks[p.ask]
}

// answer returns the limit's part of the answer to a call, without a decision.
func (p *plannedLimit) answer(call *limiter.Call) LimitAnswer {
	la := LimitAnswer{Rule: p.name, Key: p.key, Limit: p.limit, Weight: p.weight,
		Candidate: p.candidate, Direct: p.rule == nil, ConditionFailed: p.conditionFailed}
	if part := call.Result.Part(p.ask); part != nil {
		if la.Limit, la.Whole, la.shut = part.Limit, part.Whole, part.Shut; part.CutOff {
			la.Degraded = DegradedRegion
		}
	}
	if p.rule != nil {
		la.Message, la.Of, la.Notify = p.rule.Message, &p.rule.Rule, p.rule.Notify
		la.Meter = p.limit.Count == limiter.MaxExact && p.meter()
		la.Rule, la.Version = p.rule.Rule.Name, p.rule.Rule.Version
		if !p.sent && !p.candidate {
			la.Period = p.rule.Period
		}
	}
	return la
}

// workPool contains *work.
var workPool = sync.Pool{New: func() any { return new(work) }}

// maxPooled keeps the memory of the largest batches out of the pool. That of a hundred checks
// with ten limits each is pooled.
const maxPooled = 1024

// release clears w and returns it to the pool.
func (w *work) release() {
	if cap(w.calls) > maxPooled || cap(w.limits) > maxPooled {
		return
	}
	clear(w.plans)
	clear(w.limits)
	clear(w.pools)
	clear(w.matches)
	w.decision, w.loads = Decision{}, nil
	if w.hasElastic || w.hasQuotas {
		clear(w.again[:cap(w.again)])
		w.again, w.retried, w.hasElastic, w.hasQuotas = w.again[:0], w.retried[:0], false, false
	}
	for i := range w.calls {
		w.calls[i].Request.ID, w.calls[i].Request.Gone, w.calls[i].Err = "", nil, nil
		clear(w.calls[i].Request.Asks)
	}
	w.plans, w.calls, w.limits, w.pools, w.matches = w.plans[:0], w.calls[:0], w.limits[:0], w.pools[:0], w.matches[:0]
	workPool.Put(w)
}

// add plans one question under a set, at an instant of the wall clock. The error is ErrNoSet, or the error of ctx if
// the caller has left.
func (w *work) add(ctx context.Context, q *Question, set *match.Set, now time.Time) error {
	p := plan{q: q, first: len(w.limits), from: len(w.calls), pools: len(w.pools), poolsEnd: len(w.pools)}
	switch {
	case len(q.Several) > 0:
		failMode := strictestFailMode(q.Several)
		for i := range q.Several {
			w.limits = append(w.limits, direct(&q.Several[i], failMode, q.Weight))
		}
		p.enforced = len(q.Several)
	case q.IsDirect:
		w.limits = append(w.limits, direct(&q.Direct, q.Direct.FailMode, q.Weight))
		p.enforced = 1
	default:
		if set == nil {
			return ErrNoSet
		}
		match := set.MatchContext
		if q.Op == limiter.OpReset || q.Op == limiter.OpRelease || q.Op == limiter.OpClose {
			match = set.MatchBuckets
		}
		var err error
		if w.matches, err = match(ctx, &q.Descriptor, q.Weight, now, w.matches[:0]); err != nil {
			return err
		}
		w.planMatches(&p)
	}
	p.end = len(w.limits)
	for i := p.first; i < p.end; i++ {
		l := &w.limits[i]
		p.hasLeases = p.hasLeases || l.limit.Algorithm.Traits().Slots
		p.failsLocal = p.failsLocal || l.failMode == rules.FailLocal
		p.hasElastic = p.hasElastic || l.limit.Count == limiter.MaxExact && l.meter()
	}
	p.hasElastic = p.hasElastic || len(w.pools) > p.pools
	w.hasElastic = w.hasElastic || p.hasElastic

	id, unrepeated := q.RequestID, false
	if id == "" && (p.hasLeases && q.Op == limiter.OpTake || q.reserve > 0) {
		id, unrepeated = randomID(), true
	}
	if p.forReports && id != "" {
		id = reportID(id)
	}
	p.id = id
	if p.enforced > 0 {
		w.addCall(q.Op, id, w.limits[p.first:p.first+p.enforced], w.pools[p.pools:p.poolsEnd])
	}
	for i := p.first + p.enforced; i < p.end; i++ {
		w.addCall(q.Op, apartID(id, &w.limits[i]), w.limits[i:i+1], w.poolOf(i))
	}
	if q.reserve > 0 {
		if err := w.keep(&p); err != nil {
			return err
		}
	}
	p.to = len(w.calls)
	for i := p.from; i < p.to; i++ {
		req := &w.calls[i].Request
		req.Unrepeated, req.Gone, req.Late = unrepeated, q.Gone, q.Late
		if q.strict {
			req.Partly = 0 // no fail mode decides the others
		}
	}
	if !q.strict {
		w.hurry(&p, p.enforced)
	}
	w.plans = append(w.plans, p)
	return nil
}

// direct plans a direct limit.
func direct(d *Direct, failMode string, weight int64) plannedLimit {
	return plannedLimit{
		name: d.Name, key: match.DirectKey(d.Key, d.Limit), limit: d.Limit, failMode: failMode, weight: weight,
	}
}

// strictestFailMode returns the fail mode that decides for several direct limits.
func strictestFailMode(limits []Direct) string {
	for _, mode := range []string{rules.FailClosed, rules.FailLocal} {
		if slices.ContainsFunc(limits, func(d Direct) bool { return d.FailMode == mode }) {
			return mode
		}
	}
	return rules.FailOpen
}

// planMatches plans the limits of matching rules to which the operation applies: the enforced
// ones, then the shadow ones, then the candidates. Among the enforced and among the shadow
// limits, concurrency comes last, so that a charge (which omits it) and the take or refund of
// the same id begin with the same key.
//
// If an enforced rule is charged by report, charge and refund apply to such rules only.
func (w *work) planMatches(p *plan) {
	op := p.q.Op
	var reports, candidates bool
	var groups [4]bool // the groups that exist, in order
	for i := range w.matches {
		r := w.matches[i].Rule
		reports = reports || r.ChargeReport && !r.Shadow
		candidates = candidates || r.Candidate != nil
		groups[groupOf(r)] = true
	}
	if p.q.OnlyBans {
		w.matches = slices.DeleteFunc(w.matches, func(m match.Match) bool { return m.Rule.Ban == nil })
	}
	if op == limiter.OpClose { // only what obeys the limit that a bucket keeps
		w.matches = slices.DeleteFunc(w.matches, func(m match.Match) bool { return m.Limit.Kept == limiter.KeptIgnored })
	}
	if reports && (op == limiter.OpCharge || op == limiter.OpRefund) {
		p.forReports = true
		w.matches = slices.DeleteFunc(w.matches, func(m match.Match) bool { return !m.Rule.ChargeReport })
	}
	for group, there := range groups {
		if group == firstShadow {
			p.enforced, p.poolsEnd = len(w.limits)-p.first, len(w.pools)
		}
		if !there || !applies(p.q, group%firstShadow == 1) {
			continue
		}
		for i := range w.matches {
			if m := &w.matches[i]; groupOf(m.Rule) == group {
				w.limits = append(w.limits, plannedLimit{
					rule: m.Rule, key: m.Key, limit: m.Limit, failMode: m.Rule.Rule.FailMode, weight: m.Weight,
					look:   m.Rule.ChargeReport,
					former: formerOf(m), blocked: m.Override.Blocked, conditionFailed: m.ConditionFailed,
					plannedBan: plannedBan{ban: banOf(m, op), lifts: p.q.OnlyBans, banLooks: p.q.strict},
				})
				if m.Rule.SoftPercent > 0 || m.Rule.Pool != nil {
					w.throttle(p, m.Rule)
				}
			}
		}
	}
	if !candidates || !applies(p.q, false) {
		return
	}
	for i := range w.matches {
		m := &w.matches[i]
		key, limit, ok := m.Candidate()
		if !ok {
			continue
		}
		w.limits = append(w.limits, plannedLimit{
			rule: m.Rule, key: key, limit: limit, failMode: m.Rule.Rule.FailMode, weight: m.Weight, look: m.Rule.ChargeReport,
			candidate: true, conditionFailed: m.ConditionFailed,
		})
		w.throttle(p, m.Rule)
	}
}

// formerOf returns the limit that the bucket of a match had before an edit of the rule's algorithm, nil for none. The
// match has its own.
func formerOf(m *match.Match) *limiter.Limit {
	if m.Former == nil {
		return nil
	}
	return &m.Former.Limit
}

// firstShadow is the first group of shadow limits; see groupOf.
const firstShadow = 2

// groupOf returns the group of a rule's limit: 0 and 1 are enforced, 2 and 3 are shadow, and
// the odd ones are concurrency.
func groupOf(r *match.Compiled) (group int) {
	if r.Shadow {
		group = firstShadow
	}
	if r.Limit.Algorithm.Traits().Slots {
		group++
	}
	return group
}

// applies reports whether the question's operation applies to concurrency limits, or to others.
func applies(q *Question, concurrency bool) bool {
	switch q.Op {
	case limiter.OpCharge:
		return !concurrency
	case limiter.OpRelease, limiter.OpRenew:
		return concurrency
	case limiter.OpRefund:
		return !concurrency || q.RequestID != ""
	}
	return true
}

// addCall appends one store call. It reuses the memory of an earlier one.
func (w *work) addCall(op limiter.Op, id string, limits []plannedLimit, pools []plannedPool) {
	if n := len(w.calls); n < cap(w.calls) {
		w.calls = w.calls[:n+1]
	} else {
		w.calls = append(w.calls, limiter.Call{})
	}
	c := &w.calls[len(w.calls)-1]
	c.Err = nil
	c.Request.Op, c.Request.ID, c.Request.Keep = op, id, 0
	c.Request.Impatient, c.Request.Gone, c.Request.Late = false, nil, false
	c.Result.Parts, c.Result.Rest = nil, nil
	c.Request.Asks = c.Request.Asks[:0]
	full := anyFull(pools)
	for i := range limits {
		l := &limits[i]
		if l.ask = len(c.Request.Asks); l.lifts {
			c.Request.Asks = append(c.Request.Asks, l.banAsk())
			continue
		}
		ask := limiter.Ask{Key: l.key, Limit: l.storeLimit(), Weight: l.weight, Look: l.look || full, Former: l.former}
		if l.rule != nil {
			ask.Hot, ask.HotRaise = l.rule.Hot, l.rule.HotRaise
			ask.Closed = l.rule.Exact && (l.failMode == rules.FailClosed || l.blocked && l.weight > 0)
			if l.sent {
				ask.HotRaise = 0
			} else if !l.candidate {
				ask.Spans, ask.Guard, ask.SpanOf = l.rule.Global, l.rule.Guard, l.rule.SpanOf
			}
		}
		if !l.elastic {
			ask.Spare = l.spare
		}
		c.Request.Asks = append(c.Request.Asks, ask)
		if l.ban != nil {
			c.Request.Asks = append(c.Request.Asks, l.banAsk())
		}
	}
	c.Request.Partly = len(c.Request.Asks)
	for i := range pools {
		c.Request.Asks = append(c.Request.Asks, pools[i].ask())
	}
}
