package tick_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/tick"
)

func TestEvery_WaitsBeforeEachTurnAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock moves only while all wait
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour+time.Minute)
		defer cancel()
		start, turns := time.Now(), 0
		for range tick.Every(ctx, time.Hour) {
			turns++
			if passed := time.Since(start); passed != time.Duration(turns)*time.Hour {
				t.Errorf("turn %d after %v", turns, passed)
			}
		}
		if turns != 3 || ctx.Err() == nil {
			t.Errorf("%d turns, %v", turns, ctx.Err())
		}
		for range tick.Every(t.Context(), time.Hour) {
			break
		}
		for range tick.Every(ctx, time.Hour) {
			t.Error("a turn after the end")
		}
	})
}
