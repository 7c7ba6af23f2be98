package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// stops lists what was started, in order. It is stopped in reverse order, at the end of
// the process or after a failure during the start.
type stops struct {
	log   *slog.Logger
	named []namedStop
}

type namedStop struct {
	name string
	stop func(context.Context) error
}

// add registers the function that stops the part that has just started.
func (s *stops) add(name string, stop func(context.Context) error) {
	s.named = append(s.named, namedStop{name, stop})
}

// unwind stops everything and returns all errors. It continues after an error.
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

// task runs f in its own goroutine until the returned function is called, which cancels
// the context of f and waits until f returns.
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
