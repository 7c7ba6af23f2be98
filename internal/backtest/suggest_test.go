package backtest

import (
	"fmt"
	"testing"

	"sluice/limiter"
)

// The 99.9th percentile of 1,000 keys is the peak of the 999th, and 100 with a headroom of 1.1 is 110: floating point
// makes both a little more.
func TestWindow_SuggestsExactRanksAndLimits(t *testing.T) {
	w := &window{ms: 1000, keys: map[limiter.Key]*counted{}, ended: map[int64]ended{}, most: 1000}
	for i := range 1000 {
		units := int64(100)
		if i == 999 {
			units = 5000
		}
		w.add(1_000_000, limiter.Key(fmt.Sprint(i)), units, 1)
	}
	out, keys := w.suggest(1.1, 1000)
	if keys != 1000 {
		t.Fatalf("%g keys", keys)
	}
	for i, want := range []Suggestion{{Percentile: 50, Peak: 100, Limit: 110}, {Percentile: 95, Peak: 100, Limit: 110},
		{Percentile: 99, Peak: 100, Limit: 110}, {Percentile: 99.9, Peak: 100, Limit: 110},
		{Percentile: 100, Peak: 5000, Limit: 5500}} {
		got := out.Limits[i]
		got.Denied, got.DeniedKeys = 0, 0
		if got != want {
			t.Errorf("suggested %+v, want %+v", got, want)
		}
	}
	if got := withHeadroom(limiter.MaxExact, 1); got != limiter.MaxExact {
		t.Errorf("without headroom the limit is %d", got)
	}
}
