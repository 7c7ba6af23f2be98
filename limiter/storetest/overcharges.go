package storetest

import (
	"fmt"
	"testing"

	"sluice/limiter"
)

// Overcharges checks that every amount can be charged, also to a limit of 0, and what is said to be used then: windows
// that do not divide 2^53 leave a rest.
func Overcharges(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		if a.Traits().Slots {
			continue
		}
		for _, window := range []int64{1, 7, 1001, 86_400_000} {
			for _, count := range []int64{0, 1, 3} {
				l := limiter.Limit{Algorithm: a, Count: count, Window: window}
				switch a.Traits().Setting {
				case limiter.SettingBurst:
					l.Burst = count
				case limiter.SettingBuckets:
					l.Buckets = 1
				}
				t.Run(fmt.Sprintf("%s of %d in %d ms", a, count, window), func(t *testing.T) {
					clock := NewClock(1_795_000_000_000)
					overcharge(&recorder{T: t, clock: clock, store: h.New(t, clock.Now), who: newEntity()}, l)
				})
			}
		}
	}
}

func overcharge(r *recorder, l limiter.Limit) {
	most := limiter.MaxExact
	switch t := l.Algorithm.Traits(); {
	case t.Instant:
		most = l.Count
	case t.Decay == limiter.DecaySliding || t.Decay == limiter.DecayDrain:
		most = (limiter.MaxExact + l.Window - 1) / l.Window
	}
	for _, w := range []int64{limiter.MaxExact, 1, limiter.MaxExact / 3} {
		for _, op := range []limiter.Op{limiter.OpCharge, limiter.OpPeek} {
			d := do(r.T, r.store, op, "", r.who.asks(w, l)...).Limits[0]
			r.is(op.String()+": allowed, remaining, used", []any{d.Allowed, d.Remaining, d.Used}, []any{false, int64(0), most})
		}
	}
}
