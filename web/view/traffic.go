package view

import (
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/stats"
)

// Traffic is a chart of decisions, with the table behind it.
type Traffic struct {
	Points []fleet.Point
	// Span is one of Spans.
	Span  string
	Spans []string
	// Trial adds a third line: requests that would be denied.
	Trial bool
	// Unreadable means that the points could not be read.
	Unreadable bool
}

// SpanWords names a span for people.
func SpanWords(span string) string {
	switch span {
	case "1h":
		return "1 hour"
	case "3h":
		return "3 hours"
	case "3m":
		return "3 minutes"
	}
	return "1 " + span
}

// step is the length of a point, as in "per minute".
func (t *Traffic) step() string {
	if len(t.Points) < 2 {
		return "minute"
	}
	switch t.Points[1].At.Sub(t.Points[0].At) {
	case 5 * time.Second:
		return "5 seconds"
	case time.Minute:
		return "minute"
	}
	return "15 minutes"
}

// top is the largest figure of the chart, at least 1.
func (t *Traffic) top() int64 {
	top := int64(1)
	for i := range t.Points {
		p := &t.Points[i]
		top = max(top, p.Allowed, p.Denied, trialOf(p.Figures))
	}
	return top
}

// line is one figure of every point.
func (t *Traffic) line(of func(stats.Figures) int64) []float64 {
	out := make([]float64, len(t.Points))
	for i := range t.Points {
		out[i] = float64(of(t.Points[i].Figures))
	}
	return out
}

func (t *Traffic) sum() stats.Figures {
	var c stats.Figures
	for i := range t.Points {
		c.Add(t.Points[i].Figures)
	}
	return c
}

// latest are the points that can still grow: nodes report up to two seconds late.
func (t *Traffic) latest() []fleet.Point { return t.Points[max(0, len(t.Points)-2):] }

// empty reports whether nothing happened in the span.
func (t *Traffic) empty() bool { return t.sum() == stats.Figures{} }

func allowedOf(c stats.Figures) int64 { return c.Allowed }
func deniedOf(c stats.Figures) int64  { return c.Denied }
func trialOf(c stats.Figures) int64   { return c.WouldDeny }

// Sizes of the drawn chart, in its own units.
const (
	chartWidth  = 600
	chartHeight = 160
)

// chartPath draws values up to top.
func chartPath(values []float64, top int64, closed bool) string {
	if len(values) < 2 {
		return ""
	}
	var b strings.Builder
	for i, v := range values {
		x := float64(i) * chartWidth / float64(len(values)-1)
		y := 4 + (chartHeight-5)*(1-v/float64(top))
		b.WriteString([]string{"L", "M"}[btoi(i == 0)])
		b.WriteString(Tenths(x) + " " + Tenths(y))
	}
	if closed {
		b.WriteString("L600 160L0 160Z")
	}
	return b.String()
}

// totals describes the chart in words.
func (t *Traffic) totals() string {
	c := t.sum()
	s := Count(c.Allowed) + " allowed, " + Count(c.Denied) + " denied"
	if t.Trial {
		s += ", " + Count(trialOf(c)) + " that would be denied"
	}
	return s + " in " + SpanWords(t.Span)
}
