package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// stops is what has been started, in order. It is unwound last in, first out,
// whether the process ran to its end or failed half way through its start.
type stops struct {
	log   *slog.Logger
	named []namedStop
}

type namedStop struct {
	name string
	stop func(context.Context) error
}

// add registers how to stop what has just been started.
func (s *stops) add(name string, stop func(context.Context) error) {
	s.named = append(s.named, namedStop{name, stop})
}

// unwind stops everything and joins what went wrong. It goes on after an error.
func (s *stops) unwind(ctx context.Context) error {
	var errs []error
	for _, n := range slices.Backward(s.named) {
		s.log.Debug("stopping", "part", n.name)
		if err := n.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", n.name, err))
		}
	}
	s.named = nil
	return errors.Join(errs...)
}

// task runs f in a goroutine of its own until the returned stop is called,
// which cancels f's context and waits for it to return.
func task(f func(context.Context)) func(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func(wait context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-wait.Done():
			return wait.Err()
		}
	}
}
