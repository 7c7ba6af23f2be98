package backtest

import (
	"context"
	"errors"
	"io"
)

// Span is the part of a log that is read.
type Span struct {
	// Log is required.
	Log *Log
	// Events before From are skipped, and Until ends the reading, both in ms since the epoch; 0 for no bound.
	From, Until int64
	// Each is called before each event, also those that are skipped, with the number and the time of the last one. If it
	// returns false, the reading ends there, and the result says that it was cut. It may be nil.
	Each func(events, ts int64) (more bool)
}

// read calls do for each event. cut is true if the log goes on.
func (s *Span) read(ctx context.Context, do func(*Entry) error) (cut bool, err error) {
	last := int64(0)
	for n := int64(0); ; n++ {
		if s.Each != nil && !s.Each(n, last) {
			return true, ctx.Err()
		}
		e, err := s.Log.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.Until > 0 && e.TS > s.Until:
			return false, nil
		}
		if last = e.TS; e.TS < s.From {
			continue
		}
		if err := do(e); err != nil {
			return false, err
		}
	}
}
