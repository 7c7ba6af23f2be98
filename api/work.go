package api

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
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
	matches []rules.Match
}

// job is one question. Its enforced limits, if there are any, are decided by
// its first call, all together; each shadow limit by one call of its own.
type job struct {
	q        *Question
	first    int // in work.limits
	enforced int // how many from first on
	end      int
	from, to int  // in work.calls
	leases   bool // concurrency is among the limits
}

// planned is one limit of a question.
type planned struct {
	rule     *rules.Compiled // nil for a direct limit
	key      limiter.Key
	limit    limiter.Limit
	failMode string
	weight   int64
}

func (p *planned) name() string {
	if p.rule == nil {
		return ""
	}
	return p.rule.Rule.Name
}

func (p *planned) answer() LimitAnswer {
	return LimitAnswer{Rule: p.name(), Key: p.key, Limit: p.limit}
}

var workPool = sync.Pool{New: func() any { return new(work) }}

func getWork() *work {
	w, _ := workPool.Get().(*work) // the pool holds nothing else
	return w
}

// maxPooled keeps the memory of the largest batches out of the pool.
const maxPooled = 256

func putWork(w *work) {
	if cap(w.calls) > maxPooled || cap(w.limits) > maxPooled {
		return
	}
	clear(w.jobs)
	clear(w.limits)
	clear(w.matches)
	for i := range w.calls {
		w.calls[i].Request.ID, w.calls[i].Err = "", nil
		clear(w.calls[i].Request.Asks)
	}
	w.jobs, w.calls, w.limits, w.matches = w.jobs[:0], w.calls[:0], w.limits[:0], w.matches[:0]
	workPool.Put(w)
}

// add plans one question under one set, at an instant of the wall clock.
func (w *work) add(q *Question, set *rules.Set, now time.Time) error {
	j := job{q: q, first: len(w.limits), from: len(w.calls)}
	shadows := 0
	if q.IsDirect {
		w.limits = append(w.limits, planned{
			key: rules.DirectKey(q.Direct.Key, q.Direct.Limit.Algorithm), limit: q.Direct.Limit,
			failMode: q.Direct.FailMode, weight: q.Weight,
		})
	} else {
		if set == nil {
			return ErrNoSet
		}
		w.matches = set.Match(&q.Descriptor, q.Weight, now, w.matches[:0])
		w.pick(q, false, false)
		w.pick(q, false, true)
		shadows = len(w.limits)
		w.pick(q, true, false)
		w.pick(q, true, true)
		shadows = len(w.limits) - shadows
	}
	j.end = len(w.limits)
	j.enforced = j.end - j.first - shadows
	for i := j.first; i < j.end; i++ {
		j.leases = j.leases || w.limits[i].limit.Algorithm == limiter.Concurrency
	}
	w.addCalls(&j)
	j.to = len(w.calls)
	w.jobs = append(w.jobs, j)
	return nil
}

// pick plans the matches of one mode and kind that the operation applies to.
// Concurrency comes after the rest, so that a charge (which leaves it out) and
// the take or refund of the same id begin with the same key.
func (w *work) pick(q *Question, shadow, concurrency bool) {
	for i := range w.matches {
		m := &w.matches[i]
		if m.Rule.Shadow != shadow || (m.Rule.Limit.Algorithm == limiter.Concurrency) != concurrency || !applies(q, concurrency) {
			continue
		}
		w.limits = append(w.limits, planned{
			rule: m.Rule, key: m.Key, limit: m.Limit, failMode: m.Rule.FailMode, weight: m.Weight,
		})
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
	if id == "" && j.leases && j.q.Op == limiter.OpTake {
		id = randomID()
	}
	if j.enforced > 0 {
		w.call(j.q.Op, id, w.limits[j.first:j.first+j.enforced])
	}
	for i := j.first + j.enforced; i < j.end; i++ {
		w.call(j.q.Op, shadowID(id, w.limits[i].rule), w.limits[i:i+1])
	}
}

// call appends one store call, reusing the memory of an earlier one.
func (w *work) call(op limiter.Op, id string, limits []planned) {
	if n := len(w.calls); n < cap(w.calls) {
		w.calls = w.calls[:n+1]
	} else {
		w.calls = append(w.calls, limiter.Call{})
	}
	c := &w.calls[len(w.calls)-1]
	c.Err = nil
	c.Request.Op, c.Request.ID = op, id
	c.Request.Asks = c.Request.Asks[:0]
	for i := range limits {
		c.Request.Asks = append(c.Request.Asks, limiter.Ask{Key: limits[i].key, Limit: limits[i].limit, Weight: limits[i].weight})
	}
}

// randomID names a lease that its caller did not name: 128 random bits.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// shadowID is the id of a shadow rule's own call. It differs from the enforced
// limits' id, so that the two leave records of their own, and it is a function
// of both, so that a repeat, a refund or a release finds them again.
func shadowID(id string, r *rules.Compiled) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + strconv.FormatInt(r.Rule.ID, 10) + "~" + base64.RawURLEncoding.EncodeToString(sum[:16])
}
