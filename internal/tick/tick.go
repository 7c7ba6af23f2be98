// Package tick repeats work at intervals, and waits.
//
//	for range tick.Every(ctx, time.Minute) {
//		sweep()
//	}
package tick

import (
	"context"
	"time"
)

// Every returns an iterator that pauses for every before each iteration and ends with ctx. After an iteration that
// takes longer, the next one begins at once; missed iterations are not made up for.
func Every(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !yield() {
				return
			}
		}
	}
}

// Wait waits for a time, and less if ctx ends. It reports whether ctx goes on.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
