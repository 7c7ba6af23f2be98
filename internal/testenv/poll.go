package testenv

import (
	"context"
	"fmt"
	"time"
)

const (
	startTimeout = 60 * time.Second // a server on a busy machine
	stopTimeout  = 10 * time.Second // before a graceful stop becomes a kill
	pollEvery    = 10 * time.Millisecond
)

// poll calls ready until it returns nil. It gives up when ctx ends or when gone is closed (the process exited), with
// the last error of ready that is not only the end of ctx.
func poll(ctx context.Context, gone <-chan struct{}, ready func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var err error
	for {
		now := ready(ctx)
		if now == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil {
			err = now
		}
		select {
		case <-gone:
			return fmt.Errorf("the process exited: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-tick.C:
		}
	}
}
