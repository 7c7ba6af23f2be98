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
	// Each is called before each line, and for each request of a folded event, with the number of lines so far and the
	// time of the last event. If it returns false, no more lines are read, and the result says that it was cut. It may be
	// nil.
	Each func(lines, ts int64) (more bool)
}

// read calls do for each event. cut is true if the log continues.
func (s *Span) read(ctx context.Context, do func(*Entry) error) (cut bool, err error) {
	last := int64(0)
	more := func() bool {
		if s.Each != nil && !s.Each(s.Log.Lines, last) {
			cut = true
		}
		return !cut
	}
	s.Log.more = more
	for {
		e, err := s.Log.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return cut, nil
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		case s.Until > 0 && e.TS > s.Until:
			return false, nil
		}
		if last = e.TS; !cut && e.repeat > 0 && !more() {
			return true, nil // one event may stand for a million
		}
		if e.TS < s.From {
			continue
		}
		if err := do(e); err != nil {
			return false, err
		}
	}
}
