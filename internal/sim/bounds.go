package sim

import (
	"fmt"

	"sluice/limiter"
)

// held is one take in a bucket's books.
type held struct {
	at, units int64
}

// run returns the takes in a bucket, oldest first, since the last event after which they can be
// judged: an edit of the limit, a backward step of the clock, a refund without a name, and a
// refund of a charge from before these or after one that spilled. Units from before only make
// the bucket stricter, so the published bound holds for the run alone. whole reports whether
// these are all takes that the bucket ever had, without refunds.
func (b *books) run(key limiter.Key, l limiter.Limit, epoch int) (takes []held, whole bool) {
	first := b.cut(key, l, epoch)
	whole = first == 0
	spilled := false
	for n := range b.entries {
		e := &b.entries[n]
		if e.ask(key) < 0 {
			continue
		}
		spilled = spilled || e.spilled
		if n >= first && e.of >= 0 && (e.of < first || spilled) {
			first = n + 1
		}
	}
	for n := first; n < len(b.entries); n++ {
		e := &b.entries[n]
		k := e.ask(key)
		switch {
		case k < 0:
		case e.req.Op == limiter.OpRefund:
			whole = false
		case e.req.Op != limiter.OpTake || e.moved[k] == 0:
		case b.refunded(n, k):
		default:
			takes = append(takes, held{e.res.At, e.moved[k]})
		}
	}
	return takes, whole
}

// cut returns the index of the first entry of a bucket's run.
func (b *books) cut(key limiter.Key, l limiter.Limit, epoch int) int {
	for n := len(b.entries); n > b.mixed[key]; n-- {
		e := &b.entries[n-1]
		k := e.ask(key)
		if k >= 0 && (e.epoch != epoch || e.req.Asks[k].Limit != l || e.req.Op == limiter.OpReset ||
			(e.req.Op == limiter.OpRefund && e.req.ID == "")) {
			return n
		}
	}
	return b.mixed[key]
}

// overrun describes how the latest take of a bucket exceeded the bound that docs/algorithms.md
// publishes for its limit, "" if it did not.
func (b *books) overrun(key limiter.Key, l limiter.Limit, epoch int) string {
	takes, whole := b.run(key, l, epoch)
	if len(takes) == 0 {
		return ""
	}
	if l.Algorithm.Bucketed() {
		return drained(takes, l)
	}
	most := l.Count
	switch l.Algorithm.Traits().Decay {
	case limiter.DecaySliding:
		most = 2*l.Count - 1
	case limiter.DecayAtOnce:
		most = 2 * l.Count
		if l.Align == limiter.AlignFirstHit && whole {
			most--
		}
	}
	if msg := within(takes, takes[len(takes)-1].at-l.Window, most, "rolling window"); msg != "" {
		return msg
	}
	start, aligned := windowStart(l, takes[len(takes)-1].at)
	if !aligned {
		return ""
	}
	return within(takes, start-1, l.Count, "aligned window")
}

// windowStart returns the start of the aligned window of t, for limits that have one.
func windowStart(l limiter.Limit, t int64) (int64, bool) {
	d := l.Algorithm.Traits().Decay
	if d != limiter.DecayAtOnce && d != limiter.DecaySliding || l.Align != limiter.AlignCalendar || l.Buckets > 0 {
		return 0, false
	}
	into := (t - l.Anchor) % l.Window
	if into < 0 {
		into += l.Window
	}
	return t - into, true
}

// within sums the takes after an instant.
func within(takes []held, after, most int64, what string) string {
	var n int64
	for _, h := range takes {
		if h.at > after {
			n += h.units
		}
	}
	if n > most {
		return fmt.Sprintf("%d units in one %s, the bound is %d", n, what, most)
	}
	return ""
}

// drained checks burst + elapsed*rate over every period that ends now.
func drained(takes []held, l limiter.Limit) string {
	last, n := takes[len(takes)-1].at, int64(0)
	for i := len(takes) - 1; i >= 0; i-- {
		n += takes[i].units
		if most := l.Burst + (last-takes[i].at)*l.Count/l.Window; n > most {
			return fmt.Sprintf("%d units in %d ms, the bound is %d", n, last-takes[i].at, most)
		}
	}
	return ""
}

// leases sums the leases of a bucket that are live at now.
func (b *books) leases(key limiter.Key, l limiter.Limit, epoch int, now int64) (n int64) {
	type holder struct{ at, units int64 }
	live := map[string]holder{}
	for i := range b.entries {
		e := &b.entries[i]
		k := e.ask(key)
		if k < 0 {
			continue
		}
		if e.epoch != epoch || e.req.Asks[k].Limit != l {
			clear(live)
			continue
		}
		switch h, holds := live[e.req.ID]; e.req.Op {
		case limiter.OpTake:
			if e.moved[k] > 0 {
				live[e.req.ID] = holder{e.res.At, e.moved[k]}
			}
		case limiter.OpRenew:
			if holds && e.res.Limits[k].Allowed {
				live[e.req.ID] = holder{e.res.At, h.units}
			}
		case limiter.OpRelease, limiter.OpRefund:
			delete(live, e.req.ID)
		case limiter.OpReset:
			clear(live)
		}
	}
	for _, h := range live {
		if h.at > now-l.Window {
			n += h.units
		}
	}
	return n
}

// steady reports whether a bucket was used with this limit only, and without charges.
func (b *books) steady(key limiter.Key, l limiter.Limit) bool {
	for i := range b.entries {
		e := &b.entries[i]
		if k := e.ask(key); k >= 0 && (e.req.Asks[k].Limit != l || e.req.Op == limiter.OpCharge) {
			return false
		}
	}
	return true
}
