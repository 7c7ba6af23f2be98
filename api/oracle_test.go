package api

import (
	"fmt"
	"slices"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// oracle answers as a Checker should, for rules whose clock stands still: then
// every algorithm is one number, what has been spent. It is written from the
// documentation, not from the code.
type oracle struct {
	set   []rules.Rule
	pool  rules.Pool
	spent map[string]int64 // by bucket; the pool's is poolBucket
	notes map[string]note  // what a named call booked, by call
}

const poolBucket = "pool"

// note is a record: what one call booked under an id.
type note struct {
	booked   map[string]int64
	refunded bool
}

// verdictOf is what one limit should say. left is -1 where it is not compared.
type verdictOf struct {
	name, mode    string
	allowed       bool
	left          int64
	soft, elastic bool
}

// party is one limit that takes part in a request.
type party struct {
	r          rules.Rule
	mode       string
	bucket     string
	base, room int64 // the limit, and what it admits as long as nobody objects
	look       bool
}

func (p *party) elastic() bool { return p.r.Throttle == rules.ThrottleElastic && p.room > p.base }

func kindOf(algorithm string) string {
	a, err := limiter.ParseAlgorithm(algorithm)
	if err != nil {
		panic(err)
	}
	return a.Kind()
}

// parties lists what takes part in an operation: enforced limits in the order of
// answers, then shadow ones, then candidates.
func (o *oracle) parties(op limiter.Op, user string, named bool) (enforced, apart []party) {
	reports := o.reports()
	var groups [5][]party
	for _, r := range o.set {
		leases := r.Algorithm == "concurrency"
		corrects := op == limiter.OpCharge || op == limiter.OpRefund
		if reports && corrects && r.ChargeOn != rules.ChargeOnReport ||
			leases && (op == limiter.OpCharge || op == limiter.OpRefund && !named) {
			continue
		}
		of := user
		if r.Scope == "global" {
			of = ""
		}
		p := party{r: r, mode: r.Mode, base: r.Limit, look: r.ChargeOn == rules.ChargeOnReport && op == limiter.OpTake}
		p.bucket = fmt.Sprint(r.Name, "/", of, "/", kindOf(r.Algorithm))
		p.room = roomOf(&r, p.base)
		at := 0
		if r.Mode == rules.ModeShadow {
			at = 2
		}
		if leases {
			at++
		}
		groups[at] = append(groups[at], p)
		if c := r.Candidate; c != nil {
			p.mode, p.base, p.bucket, p.room = decide.ModeCandidate, *c.Limit, "candidate of "+p.bucket, roomOf(&r, *c.Limit)
			groups[4] = append(groups[4], p)
		}
	}
	return append(groups[0], groups[1]...), append(append(groups[2], groups[3]...), groups[4]...)
}

// reports: some enforced rule is charged by report.
func (o *oracle) reports() bool {
	return slices.ContainsFunc(o.set, func(r rules.Rule) bool {
		return r.ChargeOn == rules.ChargeOnReport &&
			r.Mode == rules.ModeEnforce
	})
}

// call names the record of one group's call, "" without an id. Reports have
// records apart from those of the checks that they are about.
func (o *oracle) call(q *decide.Question, group string) string {
	switch {
	case q.RequestID == "":
		return ""
	case o.reports() && q.Op != limiter.OpTake:
		return "report " + q.RequestID + " " + group
	}
	return q.RequestID + " " + group
}

func roomOf(r *rules.Rule, base int64) int64 {
	switch r.Throttle {
	case rules.ThrottleSoft:
		return base + base**r.SoftPercent/100
	case rules.ThrottleElastic:
		return base + base**r.ElasticPercent/100
	}
	return base
}

// share is how much of the pool may be in use after a request of a priority.
func (o *oracle) share(r *rules.Rule) int64 {
	switch {
	case r.Priority != nil && *r.Priority == rules.PriorityCritical:
		return o.pool.Limit
	case r.Priority != nil && *r.Priority == rules.PriorityLow:
		return o.pool.Limit * o.pool.LowPercent / 100
	}
	return o.pool.Limit * o.pool.NormalPercent / 100
}

// decide judges a group that is taken together and books it if it passes. counts
// is what the group adds to the pool, asks what it wants to find room for there.
func (o *oracle) decide(group []party, op limiter.Op, w int64, call string) (bool, []verdictOf) {
	counts, asks := o.intoPool(group, w)
	limit := make([]int64, len(group))
	var above []int // elastic limits in the way
	passes, hopeless := true, false
	for i := range group {
		p := &group[i]
		limit[i] = p.room
		if p.elastic() {
			limit[i] = p.base
		}
		if o.spent[p.bucket]+w > limit[i] {
			passes = false
			above = append(above, i)
			hopeless = hopeless || !p.elastic() || w > p.room
		}
	}
	roomy := true
	if op == limiter.OpTake && !passes && !hopeless {
		passes = true
		share := o.pool.Limit
		for _, i := range above {
			limit[i] = group[i].room
			share = min(share, o.share(&group[i].r))
		}
		roomy = o.spent[poolBucket]+asks <= share
		for i := range group {
			passes = passes && o.spent[group[i].bucket]+w <= limit[i]
		}
		passes = passes && roomy
	} else {
		above = nil
	}
	before := map[string]int64{}
	for i := range group {
		before[group[i].bucket] = o.spent[group[i].bucket]
	}
	if passes || op == limiter.OpCharge {
		o.book(group, w, counts, call)
	}
	out := make([]verdictOf, len(group))
	for i := range group {
		p := &group[i]
		v := verdictOf{name: p.r.Name, mode: p.mode, allowed: before[p.bucket]+w <= limit[i],
			left: max(0, p.base-o.spent[p.bucket])}
		for _, k := range above {
			v.allowed = v.allowed && (k != i || roomy)
		}
		if over := before[p.bucket]+w > p.base; passes && over {
			v.soft, v.elastic = p.r.Throttle == rules.ThrottleSoft, p.r.Throttle == rules.ThrottleElastic
		}
		out[i] = v
	}
	return passes, out
}

// intoPool: a request counts once, with the weight of those that spend. Shadow
// rules and candidates only look.
func (o *oracle) intoPool(group []party, w int64) (counts, asks int64) {
	for i := range group {
		if p := &group[i]; p.r.Pool != nil {
			asks = w
			if p.mode == rules.ModeEnforce && !p.look {
				counts = w
			}
		}
	}
	return counts, asks
}

// book spends a group's weight, and notes it under the call's name.
func (o *oracle) book(group []party, w, counts int64, call string) {
	n := note{booked: map[string]int64{}}
	recorded := false
	for i := range group {
		if p := &group[i]; !p.look && w > 0 {
			o.spent[p.bucket] += w
			n.booked[p.bucket] = w
			recorded = recorded || p.r.Algorithm != "concurrency"
		}
	}
	if counts > 0 {
		o.spent[poolBucket] += counts
		n.booked[poolBucket] = counts
	}
	if call != "" {
		o.notes[call] = n
		if !recorded {
			o.notes[call] = note{booked: n.booked, refunded: true} // leases only: no repeat is recognised, but a release is
		}
	}
}

// giveBack undoes what a call booked, for the parties of a refund.
func (o *oracle) giveBack(group []party, call string) {
	n, ok := o.notes[call]
	if !ok {
		return
	}
	var buckets []string
	for i := range group {
		buckets = append(buckets, group[i].bucket)
		if group[i].r.Pool != nil && !slices.Contains(buckets, poolBucket) {
			buckets = append(buckets, poolBucket)
		}
	}
	for _, b := range buckets {
		o.spent[b] -= n.booked[b]
		n.booked[b] = 0
	}
	n.refunded = true
	o.notes[call] = n
}
