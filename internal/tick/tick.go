// Package tick repeats work at intervals.
//
//	for range tick.Every(ctx, time.Minute) {
//		sweep()
//	}
package tick

import (
	"context"
	"time"
)

// Every is a loop that waits for every before each turn and ends with ctx. A turn
// that takes longer than that makes the next one late; none is made up for.
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
