package app

import (
	"context"
	"runtime/debug"
	"testing"
)

func TestGCPercent_FillsTheBudgetAndNeverCollectsMoreThanGoWould(t *testing.T) {
	for _, tt := range []struct{ live, budget, want int }{
		{8 << 20, 64, 700},    // 8 MiB in use may grow by 56
		{16 << 20, 64, 300},   //
		{32 << 20, 64, 100},   // half the budget
		{1 << 30, 64, 100},    // far above it: as Go does by itself
		{1 << 30, 4096, 300},  //
		{0, 64, 6300},         // before the first collection
		{100 << 10, 64, 6300}, // less than a MiB counts as one
	} {
		if got := gcPercent(uint64(tt.live), tt.budget); got != tt.want { //nolint:gosec // small and positive
			t.Errorf("%d bytes in use of %d MiB: %d %%, want %d %%", tt.live, tt.budget, got, tt.want)
		}
	}
}

func TestCollectLess_LeavesTheCollectorAsItFoundIt(t *testing.T) {
	t.Setenv("GOGC", "")
	before := gcTarget()
	stop := collectLess(1 << 20)
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
		stop := collectLess(tt.budget)
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
