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

func TestWait_EndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		start := time.Now()
		if !tick.Wait(ctx, time.Hour) || time.Since(start) != time.Hour {
			t.Errorf("an hour was over after %v, %v", time.Since(start), ctx.Err())
		}
		if tick.Wait(ctx, time.Hour) || time.Since(start) != 90*time.Minute {
			t.Errorf("the context ended after %v", time.Since(start))
		}
		if tick.Wait(ctx, -1) {
			t.Error("a context that has ended goes on")
		}
	})
}
