package rules

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"sluice/limiter"
)

// exactDelay is Delay.Of by the definition, in numbers without bounds.
func exactDelay(d *Delay, l *limiter.Limit, made *limiter.Decision) int64 {
	used := big.NewRat(made.Used, 1)
	if l.Algorithm.Traits().Decay == limiter.DecayDrain && l.Count > 0 && made.Reset != limiter.Never {
		level := new(big.Rat).Mul(big.NewRat(made.Reset, 1), big.NewRat(l.Count, l.Window))
		if less := new(big.Rat).Sub(used, level); less.Sign() > 0 && less.Cmp(big.NewRat(1, 1)) < 0 {
			used = level
		}
	}
	wait := new(big.Rat).Mul(used.Sub(used, big.NewRat(*d.After, 1)), big.NewRat(d.StepMS, 1))
	whole, rest := new(big.Int).DivMod(wait.Num(), wait.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	switch {
	case whole.Sign() <= 0:
		return 0
	case whole.Cmp(big.NewInt(d.MostMS)) > 0:
		return d.MostMS
	}
	return whole.Int64()
}

func TestDelay_IsExactUpToTheLargestNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(51, 1)) //nolint:gosec // a test
	upTo := func(most int64) int64 { return 1 + random.Int64N(1<<random.IntN(63))%most }
	algorithms := []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowLog, limiter.TokenBucket, limiter.GCRA}
	waits, fractions := 0, 0
	for range 200_000 {
		l := limiter.Limit{Algorithm: algorithms[random.IntN(len(algorithms))], Window: upTo(limiter.MaxWindow)}
		l.Count = upTo(limiter.MaxExact)
		made := limiter.Decision{Used: upTo(limiter.MaxExact), Reset: upTo(limiter.MaxExact) - 2}
		if l.Algorithm.Bucketed() && random.IntN(4) > 0 { // as kernels have it
			l.Count = min(l.Count, limiter.MaxExact/l.Window+1)
			level := upTo(limiter.MaxExact)
			made.Used, made.Reset = (level+l.Window-1)/l.Window, (level+l.Count-1)/l.Count
		}
		d := &Delay{After: new(max(0, made.Used-upTo(1000))), StepMS: upTo(MaxDelay), MostMS: upTo(MaxDelay)}
		if random.IntN(3) == 0 {
			d.After, d.StepMS = new(upTo(limiter.MaxExact)), upTo(10)
		}
		got, want := d.Of(&l, &made), exactDelay(d, &l, &made)
		if got != want {
			t.Fatalf("%+v after %d, %+v: %d ms for %+v, want %d", l, *d.After, *d, got, made, want)
		}
		if got > 0 && got < d.MostMS {
			waits++
		}
		if lacking := l.Algorithm.Bucketed() && got < d.MostMS && got%d.StepMS != 0; lacking {
			fractions++
		}
	}
	if waits < 1000 || fractions < 100 {
		t.Errorf("%d waits of which %d have a fraction: the numbers say too little", waits, fractions)
	}
}

func TestDelay_OfABucketFollowsItsLevel(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Window: 1000, Burst: 20}
	d := &Delay{After: new(int64(4)), StepMS: 100, MostMS: 550}
	for _, c := range []struct{ used, reset, want int64 }{
		{4, 400, 0}, {5, 401, 1}, {5, 450, 50}, {5, 500, 100}, {9, 900, 500}, {10, 940, 540}, {10, 1000, 550},
		{20, 2000, 550},
		{5, limiter.Never, 100}, // nothing drains
		{5, 900, 100},           // the clock was set back
		{7, 500, 300},           // other regions' units
	} {
		if got := d.Of(&l, &limiter.Decision{Used: c.used, Reset: c.reset}); got != c.want {
			t.Errorf("%d used, empty in %d ms: %d ms, want %d", c.used, c.reset, got, c.want)
		}
	}
}
