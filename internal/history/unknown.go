package history

import (
	"context"
	"time"
)

// Unknown is a Source that knows nothing.
type Unknown struct{}

// Stats implements Source.
func (Unknown) Stats(_ context.Context, q Query) (Result, error) {
	if err := q.Validate(); err != nil {
		return Result{}, err
	}
	from, to := q.From.UTC().Truncate(q.Step), wholeSteps(q.To.UTC(), q.Step)
	if q.Series && q.Rule == "" && q.By == ByRule {
		return Result{From: from, To: to, Step: q.Step}, nil
	}
	s := Series{Rule: q.Rule}
	for at := from; at.Before(to); at = at.Add(q.Step) {
		s.Points = append(s.Points, Point{At: at, Peak: -1})
	}
	return Result{From: from, To: to, Step: q.Step, Series: []Series{s}}, nil
}

// Marks implements MarkSource.
func (Unknown) Marks(context.Context, string, time.Time, time.Time) ([]Mark, error) { return nil, nil }
