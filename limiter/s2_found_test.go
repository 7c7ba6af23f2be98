package limiter

import "testing"

// Sums of a bucket that drains have the limit at which they were spent, so that a region that hears of them for the
// first time after a loss books them at that.
func TestFound_RestoreKeepsTheLimitAtWhichUnitsWereSpent(t *testing.T) {
	l := Limit{Algorithm: TokenBucket, Count: 1000, Burst: 1000, Window: 60_000}
	var s State
	var own Sums
	var heard Heard
	m := Sums{Born: 1_000_000, Shape: gridOf(l).shape(), Taken: 500, Count: 1000, Burst: 1000,
		Windows: []WindowUnits{{Number: gridOf(l).number(1_000_000), Units: 500}}}
	if outcome, _ := Restore(l, &s, &own, &heard, &m, 1_000_001); outcome != Applied {
		t.Fatalf("outcome %d", outcome)
	}
	if own.Taken != 500 || own.Count != 1000 || own.Burst != 1000 {
		t.Errorf("the region's own sums after the restore: %+v, want a limit and burst of 1000", own)
	}
}

// Two tiers use a bucket that drains. After a loss the one with the shorter period spends first.
func TestFound_RestoreGoesOnWhereTiersUseABucketInTurn(t *testing.T) {
	long := Limit{Algorithm: TokenBucket, Count: 10, Burst: 100, Window: 60_000}
	short := Limit{Algorithm: TokenBucket, Count: 100, Burst: 100, Window: 60_000}
	var s State
	var own Sums
	var heard Heard
	now := int64(100_000_000)
	m := Sums{Born: now - 1000, Shape: gridOf(long).shape(), Taken: 50, Count: 10, Burst: 100,
		Windows: []WindowUnits{{Number: gridOf(long).number(now), Units: 50}}}
	own.Spend(short, &s, now, 5)
	Restore(long, &s, &own, &heard, &m, now+1)
	if own.Taken != 55 {
		t.Errorf("own sums %+v, want 55 taken: a second loss is made good as well", own)
	}
}
