package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/rules/field"
)

// Day is the longest step of a series.
const Day = 24 * time.Hour

// steps are the names of the steps, shortest first.
var steps = []struct {
	name string
	step time.Duration
}{{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", Day}}

// The facts by which rows are counted.
const (
	ByRule   = "rule"
	ByKey    = "key"
	ByRoute  = "route"
	ByTenant = "tenant"
	ByNode   = "node"
)

// Pivots are the values of Query.By.
var Pivots = []string{ByRule, ByKey, ByRoute, ByTenant, ByNode}

const (
	// MaxPoints is the largest number of points of a series.
	MaxPoints = 5000
	// MaxSeries is the largest number of series of an answer by rule: the rules with the most denials, then the most
	// active ones.
	MaxSeries = 100
	// MaxAllPoints is the largest number of points of all series together. With more, there are fewer series.
	MaxAllPoints = 100_000
	// MaxRows is the largest number of rows of an answer.
	MaxRows = 100
	// SecondsKept is how long figures are known by second.
	SecondsKept = 10 * time.Minute
	// MinutesKept is how long figures are known by minute. Hours are known for SLUICE_STATS_DAYS.
	MinutesKept = 3 * 24 * time.Hour
)

// Query selects figures.
type Query struct {
	// Rule is the name of a rule, "" for all requests.
	Rule string
	// By is the fact by which rows are counted, a value of Pivots; "" for no rows.
	By string
	// From and To bound the time; To is excluded. They are widened to whole steps.
	From, To time.Time
	// Step is a second, a minute, an hour or Day (of UTC).
	Step time.Duration
	// Series asks for a series of each of the most active rules, if Rule is "" and By is ByRule, instead of one of all
	// requests.
	Series bool
	// Rows is the largest number of rows, MaxRows if 0.
	Rows int
}

// Result answers a Query.
type Result struct {
	// From and To are the bounds of the query, widened to whole steps.
	From, To time.Time
	Step     time.Duration
	// CompleteUntil is the time until which the figures no longer change; the zero time if nothing is complete.
	CompleteUntil time.Time
	// Series is the series of Query.Rule, or of all requests; with Query.Series one for each rule.
	Series []Series
	// Top are the rows, the most denied first, then the most active. They cover the time from TopFrom to TopTo, which is
	// the range, widened to the whole minutes, hours or days by which such rows are counted.
	Top            []Row
	TopFrom, TopTo time.Time
	// LineStep is the length of a part of the Line of a row. The first part begins at TopFrom.
	LineStep time.Duration
	// TopRest is the largest number of decisions that a key, route or tenant which is not among the rows may have had.
	TopRest int64
	// Denied are the distinct keys that were denied in that time; nil without rows by key.
	Denied Distinct
	// Partial says why something is missing that is normally there, nil if nothing is: the counters or the rule
	// database are unavailable. It is safe to show.
	Partial error
}

// Source answers queries. Errors are a *field.ValidationError, or wrap rules.ErrNotFound or rules.ErrUnavailable.
type Source interface {
	Stats(ctx context.Context, q Query) (Result, error)
}

// ParseStep returns the step of a name, 0 for none.
func ParseStep(name string) time.Duration {
	for _, s := range steps {
		if s.name == name {
			return s.step
		}
	}
	return 0
}

// StepName is the name of a step, "" if it is none.
func StepName(step time.Duration) string {
	for _, s := range steps {
		if s.step == step {
			return s.name
		}
	}
	return ""
}

// FitStep returns the smallest step in which a range has at most MaxPoints points, 0 if none has.
func FitStep(from, to time.Time) time.Duration {
	for _, s := range steps {
		if points(from, to, s.step) <= MaxPoints {
			return s.step
		}
	}
	return 0
}

// UsualStep returns the step of a query that names none: the smallest of a minute, an hour and a day in which a range
// has at most 1,500 points, or a day.
func UsualStep(from, to time.Time) time.Duration {
	for _, step := range []time.Duration{time.Minute, time.Hour} {
		if points(from, to, step) <= usualPoints {
			return step
		}
	}
	return Day
}

// usualPoints is the largest number of points of a series whose step nobody chose.
const usualPoints = 1500

// mostSeries is the largest number of series with that many points each.
func mostSeries(points int64) int { return int(min(MaxSeries, MaxAllPoints/max(1, points))) }

// points is the number of whole steps that a range touches.
func points(from, to time.Time, step time.Duration) int64 {
	first, end := from.Truncate(step), to.Truncate(step)
	if end.Before(to) {
		end = end.Add(step)
	}
	return int64(end.Sub(first) / step)
}

// Validate returns a *field.ValidationError that names what is wrong with a query.
func (q *Query) Validate() error {
	var bad []field.Problem
	add := func(member, message string) { bad = append(bad, field.Problem{Field: member, Message: message}) }
	if q.By != "" && !slices.Contains(Pivots, q.By) {
		add("by", "must be one of "+strings.Join(Pivots, ", "))
	}
	if q.By == ByNode && q.Rule != "" {
		add("by", "node counts all requests and cannot be combined with a rule")
	}
	if StepName(q.Step) == "" {
		add("step", "must be second, minute, hour or day")
	}
	switch {
	case q.From.IsZero() || q.From.Unix() < 0 || q.From.Year() > 9999:
		add("from", "must be a time since 1970")
	case q.To.IsZero() || wholeSteps(q.To.UTC(), Day).Year() > 9999:
		add("to", "must be a time up to the year 9999")
	case !q.From.Before(q.To):
		add("to", "must be after from")
	case StepName(q.Step) != "" && points(q.From, q.To, q.Step) > MaxPoints:
		add("step", tooMany(q.From, q.To, q.Step))
	}
	if bad != nil {
		return &field.ValidationError{Fields: bad}
	}
	return nil
}

func tooMany(from, to time.Time, step time.Duration) string {
	fit := StepName(FitStep(from, to))
	if fit == "" {
		return fmt.Sprintf("the range is too long: at most %d days", MaxPoints)
	}
	return fmt.Sprintf("the range has %d points with the step %s, at most %d are possible: use the step %s",
		points(from, to, step), StepName(step), MaxPoints, fit)
}
