package app

import (
	"context"
	"runtime/debug"
	"testing"
)

func TestGCPercent_FillsTheBudgetAndNeverCollectsMoreThanGoWould(t *testing.T) {
	for _, tt := range []struct{ live, budget, want int }{
		{16 << 20, 64, 300},  // 16 MiB in use may grow by 48
		{32 << 20, 64, 100},  // half the budget
		{1 << 30, 64, 100},   // far above it: as Go does by itself
		{1 << 30, 4096, 300}, //
		{8 << 20, 64, 400},   // far below it
		{0, 64, 400},         // before the first collection
	} {
		if got := gcPercent(uint64(tt.live), tt.budget); got != tt.want { //nolint:gosec // small and positive
			t.Errorf("%d bytes in use of %d MiB: %d %%, want %d %%", tt.live, tt.budget, got, tt.want)
		}
	}
}

func TestCollectLess_LeavesTheCollectorAsItFoundIt(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Cleanup(func() { debug.SetGCPercent(100) })
	debug.SetGCPercent(100) // a node of another test may have left its own
	before := gcTarget()
	stop := applyMemoryBudget(1 << 20)
	if got := gcTarget(); got <= before {
		t.Errorf("the target is %d %%, was %d %%", got, before)
	}
	if err := stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := gcTarget(); got != before {
		t.Errorf("the target is left at %d %%, was %d %%", got, before)
	}
}

func TestCollectLess_RespectsGOGCAndZero(t *testing.T) {
	before := gcTarget()
	for _, tt := range []struct {
		gogc   string
		budget int
	}{{"150", 1 << 20}, {"", 0}} {
		t.Setenv("GOGC", tt.gogc)
		stop := applyMemoryBudget(tt.budget)
		if got := gcTarget(); got != before {
			t.Errorf("with GOGC=%q and a budget of %d the target became %d %%", tt.gogc, tt.budget, got)
		}
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// gcTarget reads the collector's percentage, which can only be read by setting it.
func gcTarget() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

func TestShrinkage_IsNoticedOnceTheCountersAreCalm(t *testing.T) {
	var s shrinkDetector
	looks := func(sizes ...int64) (times int) {
		for _, n := range sizes {
			if s.check(n * mebibyte) {
				times++
			}
		}
		return times
	}
	if n := looks(1, 2, 3, 2, 1, 1, 1, 1, 1, 1); n != 0 {
		t.Errorf("memory given back %d times after a few MiB, want 0", n)
	}
	if n := looks(10, 60, 100, 90, 80, 70, 60, 55, 55, 55); n != 0 {
		t.Errorf("memory given back %d times while most is in use, want 0", n)
	}
	if n := looks(40, 30, 20, 30, 20, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10); n != 1 {
		t.Errorf("memory given back %d times after a flood of 100 MiB, want once", n)
	}
	if n := looks(5, 5, 5, 5, 5, 5, 5, 5, 5, 5); n != 0 {
		t.Errorf("memory given back %d times more for 5 MiB, want 0", n)
	}
}
