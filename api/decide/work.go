package decide

import (
	"context"
	"slices"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// work is the memory of one call of the Checker: the limits of each question
// and the store calls that decide them. It is pooled; nothing in it outlives the
// call.
type work struct {
	jobs    []job
	calls   []limiter.Call
	limits  []planned
	pools   []plannedPool
	matches []rules.Match
	again   []limiter.Call // second attempts, see goAbove
	retried []retry
	above   bool // some job may need a second attempt
	told    Decision
}

// job is one question. Its enforced limits, if there are any, are decided by
// its first call, all together and with the pools that they count into; each
// shadow limit and each candidate by one call of its own.
type job struct {
	q        *Question
	first    int // in work.limits
	enforced int // how many from first on
	end      int
	pools    int // in work.pools, those of the enforced limits
	poolsEnd int
	from, to int  // in work.calls
	leases   bool // concurrency is among the limits
	above    bool // elastic limits or pools are
	reports  bool // it is about limits charged by report only
	outcome  string
	by       string // both as Decision has them
}

// planned is one limit of a question.
type planned struct {
	rule *rules.Compiled // nil for a direct limit
	key  limiter.Key
	// limit is what the answer shows; asked is what the store is held to.
	limit    limiter.Limit
	failMode string
	weight   int64
	// spare is how many units are admitted above the limit: by a soft one always,
	// by an elastic one while its pool has room.
	spare int64
	// pool is the place of the pool in work.pools plus 1, 0 for none.
	pool int32
	// raised is the attempt from which on an elastic limit has been asked with its
	// spare units, 0 for never, and wait what its retry-after was without them.
	raised    int32
	wait      int64
	elastic   bool
	look      bool // a take spends nothing here
	candidate bool
	blocked   bool // an override says so, whatever the store
}

// asked is the limit that the store is asked about at first.
func (p *planned) asked() limiter.Limit {
	if p.spare == 0 || p.elastic {
		return p.limit
	}
	return p.limit.Widen(p.spare)
}

// spends is how many units an operation that is carried out books here.
func (p *planned) spends(op limiter.Op) int64 {
	if p.look && op == limiter.OpTake {
		return 0
	}
	return p.weight
}

// mode is the limit's mode as metrics have it.
func (p *planned) mode() string {
	switch {
	case p.candidate:
		return ModeCandidate
	case p.rule != nil && p.rule.Shadow:
		return rules.ModeShadow
	}
	return rules.ModeEnforce
}

func (p *planned) name() string {
	if p.rule == nil {
		return ""
	}
	return p.rule.Rule.Name
}

func (p *planned) answer() LimitAnswer {
	la := LimitAnswer{Rule: p.name(), Key: p.key, Limit: p.limit, Candidate: p.candidate}
	if p.rule != nil {
		la.Version = p.rule.Rule.Version
	}
	return la
}

var workPool = sync.Pool{New: func() any { return new(work) }}

func getWork() *work {
	w, _ := workPool.Get().(*work) // the pool holds nothing else
	return w
}

// maxPooled keeps the memory of the largest batches out of the pool: a hundred
// checks with ten limits each stay.
const maxPooled = 1024

func putWork(w *work) {
	if cap(w.calls) > maxPooled || cap(w.limits) > maxPooled {
		return
	}
	clear(w.jobs)
	clear(w.limits)
	clear(w.pools)
	clear(w.matches)
	w.told = Decision{}
	if w.above {
		clear(w.again[:cap(w.again)])
		w.again, w.retried, w.above = w.again[:0], w.retried[:0], false
	}
	for i := range w.calls {
		w.calls[i].Request.ID, w.calls[i].Err = "", nil
		clear(w.calls[i].Request.Asks)
	}
	w.jobs, w.calls, w.limits, w.pools, w.matches = w.jobs[:0], w.calls[:0], w.limits[:0], w.pools[:0], w.matches[:0]
	workPool.Put(w)
}

// add plans one question under one set, at an instant of the wall clock. The
// error is ErrNoSet, or that of ctx if the caller has left.
func (w *work) add(ctx context.Context, q *Question, set *rules.Set, now time.Time) error {
	j := job{q: q, first: len(w.limits), from: len(w.calls), pools: len(w.pools), poolsEnd: len(w.pools)}
	apart := 0
	if q.IsDirect {
		w.limits = append(w.limits, planned{
			key: rules.DirectKey(q.Direct.Key, q.Direct.Limit.Algorithm), limit: q.Direct.Limit,
			failMode: q.Direct.FailMode, weight: q.Weight,
		})
	} else {
		if set == nil {
			return ErrNoSet
		}
		var err error
		if w.matches, err = set.MatchContext(ctx, &q.Descriptor, q.Weight, now, w.matches[:0]); err != nil {
			return err
		}
		candidates := w.concerned(&j)
		w.pick(&j, false, false)
		w.pick(&j, false, true)
		apart = len(w.limits)
		j.poolsEnd = len(w.pools)
		w.pick(&j, true, false)
		w.pick(&j, true, true)
		if candidates {
			w.pickCandidates(&j)
		}
		apart = len(w.limits) - apart
	}
	j.end = len(w.limits)
	j.enforced = j.end - j.first - apart
	for i := j.first; i < j.end; i++ {
		j.leases = j.leases || w.limits[i].limit.Algorithm == limiter.Concurrency
	}
	j.above = len(w.pools) > j.pools
	w.above = w.above || j.above
	w.addCalls(&j)
	if q.reserve > 0 {
		if err := w.keep(&j); err != nil {
			return err
		}
	}
	j.to = len(w.calls)
	w.jobs = append(w.jobs, j)
	return nil
}

// concerned drops the matches that the operation leaves alone: where an enforced
// rule is charged by report, charge and refund are about such rules only (and
// j.reports says so). It reports whether any of the rest has a candidate.
func (w *work) concerned(j *job) (candidates bool) {
	reports := false
	for i := range w.matches {
		r := w.matches[i].Rule
		reports = reports || r.ChargeReport && !r.Shadow
		candidates = candidates || r.Candidate != nil
	}
	if reports && (j.q.Op == limiter.OpCharge || j.q.Op == limiter.OpRefund) {
		j.reports = true
		w.matches = slices.DeleteFunc(w.matches, func(m rules.Match) bool { return !m.Rule.ChargeReport })
	}
	return candidates
}

// pick plans the matches of one mode and kind that the operation applies to.
// Concurrency comes after the rest, so that a charge (which leaves it out) and
// the take or refund of the same id begin with the same key.
func (w *work) pick(j *job, shadow, concurrency bool) {
	for i := range w.matches {
		m := &w.matches[i]
		if m.Rule.Shadow != shadow || (m.Rule.Limit.Algorithm == limiter.Concurrency) != concurrency || !applies(j.q, concurrency) {
			continue
		}
		w.limits = append(w.limits, planned{
			rule: m.Rule, key: m.Key, limit: m.Limit, failMode: m.Rule.FailMode, weight: m.Weight, look: m.Rule.ChargeReport,
			blocked: m.Override.Blocked,
		})
		w.throttle(j, m.Rule)
	}
}

// pickCandidates plans the candidates of the rules that the operation applies to.
func (w *work) pickCandidates(j *job) {
	for i := range w.matches {
		m := &w.matches[i]
		key, limit, ok := m.Candidate()
		if !ok || !applies(j.q, false) {
			continue
		}
		w.limits = append(w.limits, planned{
			rule: m.Rule, key: key, limit: limit, failMode: m.Rule.FailMode, weight: m.Weight, look: m.Rule.ChargeReport, candidate: true,
		})
		w.throttle(j, m.Rule)
	}
}

// applies says whether an operation concerns concurrency limits, or others.
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

func (w *work) addCalls(j *job) {
	id := j.q.RequestID
	if id == "" && (j.leases && j.q.Op == limiter.OpTake || j.q.reserve > 0) {
		id = randomID()
	}
	if j.reports && id != "" {
		id = reportID(id)
	}
	if j.enforced > 0 {
		w.call(j.q.Op, id, w.limits[j.first:j.first+j.enforced], w.pools[j.pools:j.poolsEnd])
	}
	for i := j.first + j.enforced; i < j.end; i++ {
		w.call(j.q.Op, apartID(id, &w.limits[i]), w.limits[i:i+1], w.poolOf(i))
	}
}

// call appends one store call, reusing the memory of an earlier one.
func (w *work) call(op limiter.Op, id string, limits []planned, pools []plannedPool) {
	if n := len(w.calls); n < cap(w.calls) {
		w.calls = w.calls[:n+1]
	} else {
		w.calls = append(w.calls, limiter.Call{})
	}
	c := &w.calls[len(w.calls)-1]
	c.Err = nil
	c.Request.Op, c.Request.ID, c.Request.Keep = op, id, 0
	c.Request.Asks = c.Request.Asks[:0]
	for i := range limits {
		p := &limits[i]
		ask := limiter.Ask{Key: p.key, Limit: p.asked(), Weight: p.weight, Look: p.look}
		if p.rule != nil {
			ask.Hot, ask.HotRaise = p.rule.Hot, p.rule.HotRaise
		}
		c.Request.Asks = append(c.Request.Asks, ask)
	}
	for i := range pools {
		c.Request.Asks = append(c.Request.Asks, pools[i].ask())
	}
}
