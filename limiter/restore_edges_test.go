package limiter

import "testing"

// Sums of a bucket that drains have the limit at which they were spent, so that a region that receives them for the
// first time after a loss books them at that.
func TestRestore_RestoreKeepsTheLimitAtWhichUnitsWereSpent(t *testing.T) {
	l := Limit{Algorithm: TokenBucket, Count: 1000, Burst: 1000, Window: 60_000}
	var s State
	var own Sums
	var received Received
	m := Sums{Born: 1_000_000, Shape: gridOf(l).shape(), Taken: 500, Count: 1000, Burst: 1000,
		Windows: []WindowUnits{{Number: gridOf(l).number(1_000_000), Units: 500}}}
	if outcome, _ := Restore(l, &s, &own, &received, &m, 1_000_001); outcome != Applied {
		t.Fatalf("outcome %d", outcome)
	}
	if own.Taken != 500 || own.Count != 1000 || own.Burst != 1000 {
		t.Errorf("the region's own sums after the restore: %+v, want a limit and burst of 1000", own)
	}
}
