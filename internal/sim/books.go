package sim

import (
	"slices"
	"strings"

	"sluice/limiter"
)

// entry is one applied request that moved units, as recorded in a store's books.
type entry struct {
	// write is the number of the store's write; an entry exists as long as its write.
	write int
	req   limiter.Request
	res   limiter.Result
	// moved counts the units that each ask charged or refunded.
	moved []int64
	// claims marks, in a named refund, the asks whose charge it refunded.
	claims []bool
	// of is the index of the entry that a named refund reverts, -1 if none.
	of int
	// epoch counts the backward steps of the store's clock so far.
	epoch int
	// spilled reports that a charge exceeded a gcra bucket, which keeps at most a full
	// burst, while refunds return whole weights.
	spilled bool
	// heard reports that the answer reached the node.
	heard bool
	// shadow reports that the request is of a shadow limit.
	shadow bool
}

// books is the exact history of one store. Entries that a failover or a flush lost are removed, and
// their units are counted.
type books struct {
	entries []entry
	sums    sums
	// mixed is the number of entries when a gcra bucket was last used under another limit than
	// before; asked is that limit. Even a look under a smaller limit cuts the level of such a
	// bucket.
	mixed map[limiter.Key]int
	asked map[limiter.Key]limiter.Limit
}

// ask records the limits under which buckets that keep an instant are used.
func (b *books) ask(req *limiter.Request) {
	for i := range req.Asks {
		a := &req.Asks[i]
		if !a.Limit.Algorithm.Traits().Instant {
			continue
		}
		if last, ok := b.asked[a.Key]; ok && last != a.Limit {
			b.mixed[a.Key] = len(b.entries)
		}
		b.asked[a.Key] = a.Limit
	}
}

// sums are units of takes over all enforced limits except leases, since the start, split by
// whether the node got the answer.
type sums struct{ charged, lost, flushed split }

// split is a number of units.
type split struct{ heard, unheard int64 }

func (s *split) add(heard bool, n int64) {
	if heard {
		s.heard += n
	} else {
		s.unheard += n
	}
}

// lease reports whether ask i is of concurrency.
func lease(req *limiter.Request, i int) bool {
	return req.Asks[i].Limit.Algorithm.Traits().Slots
}

// shadowCall reports whether a request belongs to a shadow rule.
func shadowCall(req *limiter.Request, shadows map[string]bool) bool {
	return shadows[ruleOf(req.Asks[0].Key)]
}

// isMeter reports whether a bucket is of the rule whose buckets never drain.
func isMeter(key limiter.Key) bool { return ruleOf(key) == meterRuleID }

// ruleOf returns the id of a bucket's rule, "" if it has none.
func ruleOf(key limiter.Key) string {
	_, rest, _ := strings.Cut(string(key), "|")
	id, _, _ := strings.Cut(rest, "|")
	return id
}

// taken returns the units that an entry's take charged, without leases and shadow limits.
func (e *entry) taken() (n int64) {
	if e.req.Op != limiter.OpTake || e.shadow {
		return 0
	}
	for i, units := range e.moved {
		if !lease(&e.req, i) {
			n += units
		}
	}
	return n
}

// matters reports whether this request and its answer moved units. A denied take and one of
// weight 0 may write too: they store a rebased clock.
func (e *entry) matters(req *limiter.Request, res *limiter.Result) bool {
	if req.Op != limiter.OpTake && req.Op != limiter.OpCharge {
		return true
	}
	return (res.Allowed || req.Op == limiter.OpCharge) &&
		slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool { return a.Weight > 0 })
}

// ask returns the index of key among the entry's asks, -1 if it is not there.
func (e *entry) ask(key limiter.Key) int {
	return slices.IndexFunc(e.req.Asks, func(a limiter.Ask) bool { return a.Key == key })
}

func (b *books) add(e *entry) {
	b.entries = append(b.entries, *e)
	b.sums.charged.add(e.heard, e.taken())
}

// lose removes the entries of writes after the given one.
func (b *books) lose(write int) {
	n := len(b.entries)
	for n > 0 && b.entries[n-1].write > write {
		n--
	}
	b.remove(n, &b.sums.lost)
}

// flush removes every entry.
func (b *books) flush() { b.remove(0, &b.sums.flushed) }

// remove drops the entries from n on and adds their units to a sum.
func (b *books) remove(n int, to *split) {
	for i := n; i < len(b.entries); i++ {
		to.add(b.entries[i].heard, b.entries[i].taken())
	}
	b.entries = b.entries[:n]
	for key, at := range b.mixed {
		b.mixed[key] = min(at, n)
	}
}

// standing returns the units of takes in the books.
func (b *books) standing() (s split) {
	for i := range b.entries {
		s.add(b.entries[i].heard, b.entries[i].taken())
	}
	return s
}

// refunded reports whether the charge of ask i of entry n was given back.
func (b *books) refunded(n, i int) bool {
	key := b.entries[n].req.Asks[i].Key
	for j := n + 1; j < len(b.entries); j++ {
		r := &b.entries[j]
		if r.of == n && r.claims != nil {
			if k := r.ask(key); k >= 0 && r.claims[k] {
				return true
			}
		}
	}
	return false
}

// charge returns the index of the latest entry with the entity and id of a named request, -1 if
// there is none.
func (b *books) charge(req *limiter.Request) int {
	if req.ID == "" {
		return -1
	}
	for n := len(b.entries) - 1; n >= 0; n-- {
		e := &b.entries[n]
		if recorded(&e.req) && e.req.ID == req.ID && e.req.Asks[0].Key.Tag() == req.Asks[0].Key.Tag() {
			return n
		}
	}
	return -1
}

// repeats returns the entry that a take or charge repeats, -1 if it is new.
func (b *books) repeats(req *limiter.Request, now int64) int {
	n := -1
	if recorded(req) {
		n = b.charge(req)
	}
	if n < 0 {
		return -1
	}
	e := &b.entries[n]
	if now < e.res.At || now-e.res.At > limiter.ReplayWindow || len(e.req.Asks) != len(req.Asks) {
		return -1
	}
	for i := range req.Asks {
		if e.req.Asks[i].Key != req.Asks[i].Key || b.refunded(n, i) {
			return -1
		}
	}
	return n
}

// net returns the units charged to a bucket and not given back, which a bucket that never drains
// must hold.
func (b *books) net(key limiter.Key) (n int64) {
	for i := range b.entries {
		e := &b.entries[i]
		k := e.ask(key)
		if k < 0 {
			continue
		}
		switch e.req.Op {
		case limiter.OpTake, limiter.OpCharge:
			n += e.moved[k]
		case limiter.OpRefund:
			n -= e.moved[k]
		case limiter.OpReset:
			n = 0
		}
	}
	return n
}
