package storetest

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

// Kept checks limits that buckets keep (limiter.Kept), and OpClose.
func Kept(t *testing.T, h Harness) {
	for _, align := range []limiter.Align{limiter.AlignCalendar, limiter.AlignFirstHit} {
		t.Run("Model/"+align.String(), func(t *testing.T) { keptModelled(t, h, align) })
	}
	tests := map[string]func(*recorder){
		"OfTheFirstThatCounts":         keptFirst,
		"DeniedByAnotherChangesNone":   keptDenied,
		"RepeatShowsTheLimitOfTheTime": keptRepeat,
		"SettledInTheNextWindow":       keptSettled,
		"MovedInIsNotKept":             keptMoved,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := NewClock(1_795_000_000_000)
			test(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()})
		})
	}
}

// keptLimit is a limit of 1,000 an hour whose requests bring n; -1 is none.
func keptLimit(n int64) limiter.Limit {
	l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1000, Window: 3_600_000, Kept: limiter.KeptObeyed}
	if n >= 0 {
		l.Count, l.Kept = min(l.Count, n), limiter.KeptSet
	}
	return l
}

func keptFirst(r *recorder) {
	limits := func(want int64, got limiter.Result) {
		r.Helper()
		r.is("limit", got.Limits[0].Limit, want)
	}
	limits(200, do(r.T, r.store, limiter.OpPeek, "", r.who.asks(1, keptLimit(200))...))
	limits(300, r.take("", 301, keptLimit(300))) // denied for good
	limits(1000, do(r.T, r.store, limiter.OpPeek, "", r.who.asks(1, keptLimit(-1))...))
	limits(100, r.take("", 10, keptLimit(100)))
	limits(100, r.take("", 10, keptLimit(500)))
	limits(100, r.take("", 10, keptLimit(-1)))
	got := r.take("", 71, keptLimit(-1))
	r.is("above it", []bool{got.Allowed, got.Limits[0].RetryAfter > 0}, []bool{false, true})
	r.is("what remains to an override", r.remaining(plain(keptLimit(-1))), []int64{970})
	limits(20, r.take("", 1, keptLimit(20))) // denied, because 30 are spent
	r.is("allowed after it was lowered below that", r.take("", 1, keptLimit(100)).Allowed, false)
	r.is("an override", r.take("", 100, plain(keptLimit(-1))).Allowed, true)
	limits(20, do(r.T, r.store, limiter.OpPeek, "", r.who.asks(1, keptLimit(-1))...))
	r.clock.Advance(3_600_000)
	limits(1000, r.take("", 10, keptLimit(-1)))
}

// plain is a limit that ignores what the bucket keeps.
func plain(l limiter.Limit) limiter.Limit {
	l.Kept = limiter.KeptIgnored
	return l
}

func keptDenied(r *recorder) {
	asks := r.who.asks(5, keptLimit(10), limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 3_600_000})
	asks[1].Key = newEntity().key(1, limiter.FixedWindow) // another slot of a cluster
	r.is("allowed", do(r.T, r.store, limiter.OpTake, "", asks...).Allowed, true)
	asks[0].Limit = keptLimit(7)
	asks[0].Weight = 1
	r.is("denied by the other", do(r.T, r.store, limiter.OpTake, "", asks...).Allowed, false)
	r.is("the limit", do(r.T, r.store, limiter.OpPeek, "", r.who.asks(0, keptLimit(-1))...).Limits[0].Limit, int64(10))
	asks[0].Key = newEntity().key(0, limiter.FixedWindow)
	do(r.T, r.store, limiter.OpTake, "", asks...)
	asks[0].Limit = keptLimit(-1)
	r.is("the limit of one that never counted",
		do(r.T, r.store, limiter.OpPeek, "", asks[0]).Limits[0].Limit, int64(1000))
}

func keptRepeat(r *recorder) {
	first := r.take("a", 10, keptLimit(100))
	r.take("", 1, keptLimit(50))
	r.replays(first, r.take("a", 10, keptLimit(100)))
	r.is("given back", r.refund("a", keptLimit(-1)), []int64{10})
	r.is("remaining", r.remaining(keptLimit(-1)), []int64{49})
}

func keptSettled(r *recorder) {
	do(r.T, r.store, limiter.OpTake, "a", r.who.asks(10, keptLimit(100))...)
	r.clock.Advance(3_600_000)
	got := r.settle("a", 30, keptLimit(100))
	r.is("limit, and used in this window", []int64{got.Limits[0].Limit, got.Limits[0].Used}, []int64{100, 20})
	r.is("remaining to one without a field", r.remaining(keptLimit(-1)), []int64{980})
}

func keptMoved(r *recorder) {
	former := limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: 3_600_000}
	do(r.T, r.store, limiter.OpTake, "", r.who.asks(40, former)...)
	asks := r.who.asks(100, keptLimit(90))
	asks[0].Former = &former
	r.is("allowed", do(r.T, r.store, limiter.OpTake, "", asks...).Allowed, false)
	r.is("remaining", r.remaining(keptLimit(-1)), []int64{960})
}

// keptModel is what a bucket that keeps a limit does, in the fewest words. kept is -1 for none.
type keptModel struct{ start, used, kept int64 }

func (m *keptModel) roll(l limiter.Limit, now int64) {
	if m.start >= 0 && now >= m.start+l.Window {
		*m = keptModel{-1, 0, -1}
	}
}

func (m *keptModel) begin(l limiter.Limit, now int64) {
	if m.start < 0 {
		if m.start = now; l.Align == limiter.AlignCalendar {
			m.start -= now % l.Window
		}
	}
}

func (m *keptModel) limit(l limiter.Limit) int64 {
	if m.kept >= 0 && l.Kept != limiter.KeptIgnored {
		return min(l.Count, m.kept)
	}
	return l.Count
}

// keptModelled compares random requests with the model. Beside the limit is another one, in another slot of a cluster.
func keptModelled(t *testing.T, h Harness, align limiter.Align) {
	clock := NewClock(1_795_000_000_000)
	store := h.New(t, clock.Now)
	rapid.Check(t, func(rt *rapid.T) {
		who := newEntity()
		beside := limiter.Ask{Key: newEntity().key(0, limiter.FixedWindow), Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 0, Window: 1000}}
		m := keptModel{-1, 0, -1}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			clock.Advance(rapid.SampledFrom([]int64{0, 1, 400, 1000, 2500}).Draw(rt, "later"))
			l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 30, Window: 1000, Align: align,
				Kept: rapid.SampledFrom([]limiter.Kept{0, 1, 2, 2}).Draw(rt, "kept")}
			if l.Kept == limiter.KeptSet {
				l.Count = rapid.Int64Range(0, 30).Draw(rt, "brought")
			}
			op := rapid.SampledFrom([]limiter.Op{limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek,
				limiter.OpCharge, limiter.OpRefund, limiter.OpReset, limiter.OpClose}).Draw(rt, "op")
			if op == limiter.OpClose {
				l.Kept = max(l.Kept, limiter.KeptObeyed)
			}
			w := rapid.Int64Range(0, 12).Draw(rt, "weight")
			asks := who.asks(w, l)
			besides := op == limiter.OpTake && rapid.Bool().Draw(rt, "denied by another")
			if besides {
				asks = append(asks, beside)
			}
			got := do(rt, store, op, "", asks...)
			want := m.decide(op, l, w, clock.Now(), besides)
			d := got.Limits[0]
			if d.Allowed != (want.RetryAfter == 0) || d.Limit != want.Limit || d.Used != want.Used ||
				d.RetryAfter != want.RetryAfter {
				rt.Fatalf("%s of %d under %+v at %d:\n got %+v\nwant %+v", op, w, l, clock.Now(), d, want)
			}
		}
	})
}

// decide does one request and returns what matters of the decision.
func (m *keptModel) decide(op limiter.Op, l limiter.Limit, w, now int64, denied bool) (d limiter.Decision) {
	m.roll(l, now)
	limit := m.limit(l)
	takes := op == limiter.OpTake || op == limiter.OpPeek || op == limiter.OpCharge
	if takes && w > limit-m.used {
		end := now + l.Window
		if m.start >= 0 {
			end = m.start + l.Window
		} else if l.Align == limiter.AlignCalendar {
			end = now - now%l.Window + l.Window
		}
		d.RetryAfter = end - now
		if w > l.Count {
			d.RetryAfter = limiter.Never
		}
	}
	switch {
	case op == limiter.OpReset:
		*m = keptModel{-1, 0, -1}
	case op == limiter.OpClose:
		m.begin(l, now)
		m.kept = 0
	case op == limiter.OpRefund:
		m.used -= min(m.used, w)
	case w > 0 && (op == limiter.OpCharge || op == limiter.OpTake && d.RetryAfter == 0 && !denied):
		m.begin(l, now)
		m.used += w
		if l.Kept == limiter.KeptSet {
			m.kept = limit
		}
	case w > 0 && op == limiter.OpTake && d.RetryAfter != 0 && l.Kept == limiter.KeptSet && m.used > l.Count:
		m.kept = limit
	}
	d.Limit, d.Used = m.limit(l), m.used
	return d
}
