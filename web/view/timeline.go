package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
)

// Timeline is a chart of decisions over a range, with the table behind it.
type Timeline struct {
	// ID begins the IDs of its elements, which are unique on the page.
	ID    string
	Range Range
	// Points are the figures, each of the width of the range. Earlier are the figures of the range for comparison, nil
	// if there is none.
	Points, Earlier []history.Point
	// Marks are what happened in the range.
	Marks Marks
	// Page is the address of the page, which zooming changes. Moment is the address of the requests of a moment, "" for
	// none.
	Page   Query
	Moment Query
	// Unreadable means that the figures could not be read.
	Unreadable bool
}

// layer is a part of the bars of a chart: count is its height, base the height of the layers below it. A strip is above
// all bars.
type layer struct {
	kind, label string
	count, base func(f *history.Figures) int64
	strip       bool
}

// layers are the parts of the bars, the lowest first. Decisions of fail modes are included in allowed and denied ones,
// so they are no separate part: a strip marks the points in which fail modes decided.
var layers = []layer{
	{"good", "Allowed", func(f *history.Figures) int64 { return f.Allowed - f.WouldDeny },
		func(*history.Figures) int64 { return 0 }, false},
	{"info", "Would deny", func(f *history.Figures) int64 { return f.WouldDeny },
		func(f *history.Figures) int64 { return f.Allowed - f.WouldDeny }, false},
	{"bad", "Denied", func(f *history.Figures) int64 { return f.Denied },
		func(f *history.Figures) int64 { return f.Allowed }, false},
	{"warn", "By fail modes", func(f *history.Figures) int64 { return f.Degraded }, nil, true},
}

// Sum returns the sum of the known figures of the range.
func (t *Timeline) Sum() history.Figures {
	s := history.Series{Points: t.Points}
	sum, _ := s.Sum()
	return sum
}

// values is the axis of the values, on which the largest rate fits.
func (t *Timeline) values() Values {
	top := int64(0)
	for _, list := range [][]history.Point{t.Points, t.Earlier} {
		for i := range list {
			top = max(top, list[i].Total())
		}
	}
	return ValuesTo(t.rate(top))
}

// rate is a number of requests in a point as requests per second.
func (t *Timeline) rate(n int64) float64 { return float64(n) / t.Range.Width.Seconds() }

// times is the axis of the time.
func (t *Timeline) times() Times {
	return Times{From: t.Range.From, To: t.Range.To, Days: t.Range.Width >= history.Day}
}

func (t *Timeline) known() bool { return anyKnown(t.Points) }

func anyKnown(points []history.Point) bool {
	return slices.ContainsFunc(points, func(p history.Point) bool { return p.Known })
}

// bars draws a layer.
func (t *Timeline) bars(l layer, axis Values) string {
	var b strings.Builder
	width := float64(chartWidth) / float64(max(1, len(t.Points)))
	gap := min(1, width/5)
	for i := range t.Points {
		f := &t.Points[i].Figures
		n := l.count(f)
		if !t.Points[i].Known || n <= 0 {
			continue
		}
		if l.strip { // neighbours touch
			fmt.Fprintf(&b, "M%s 0h%sv%sh-%sz", Tenths(float64(i)*width), Tenths(width), Digits(chartTop), Tenths(width))
			continue
		}
		height := axis.Height(t.rate(n))
		bottom := chartHeight - axis.Height(t.rate(l.base(f)))
		fmt.Fprintf(&b, "M%s %sh%sv-%sh-%sz", Tenths(float64(i)*width+gap/2), Tenths(bottom), Tenths(width-gap),
			Tenths(max(height, .5)), Tenths(width-gap))
	}
	return b.String()
}

// gaps draws where nothing is known.
func (t *Timeline) gaps() string {
	var b strings.Builder
	width := float64(chartWidth) / float64(max(1, len(t.Points)))
	for i := 0; i < len(t.Points); i++ {
		from := i
		for i < len(t.Points) && !t.Points[i].Known {
			i++
		}
		if i > from {
			fmt.Fprintf(&b, "M%s 0h%sv%sh-%sz", Tenths(float64(from)*width), Tenths(float64(i-from)*width), Digits(chartHeight),
				Tenths(float64(i-from)*width))
		}
	}
	return b.String()
}

// before draws the decisions of the earlier range as a line.
func (t *Timeline) before(axis Values) string {
	var b strings.Builder
	width := float64(chartWidth) / float64(max(1, len(t.Earlier)))
	draw := "M"
	for i := range t.Earlier {
		if !t.Earlier[i].Known {
			draw = "M"
			continue
		}
		b.WriteString(draw + Tenths((float64(i)+.5)*width) + " " +
			Tenths(chartHeight-axis.Height(t.rate(t.Earlier[i].Total()))))
		draw = "L"
	}
	return b.String()
}

// step is the length of a point, as in "one bar per minute".
func (t *Timeline) step() string {
	if t.Range.Width >= history.Day {
		return StepWords(t.Range.Width) + " of UTC"
	}
	return StepWords(t.Range.Width)
}

// StepWords is Window for a length of time: "hour", "2 hours".
func StepWords(w time.Duration) string { return Window(w.Milliseconds()) }

// day is a day of UTC, by which days are counted.
func day(at time.Time) string { return at.UTC().Format("2006-01-02") }

// totals describes the chart in a sentence.
func (t *Timeline) totals() string {
	if !t.known() {
		return "Nothing is known of " + t.Range.Words()
	}
	f := t.Sum()
	s := Count(f.Allowed) + " allowed, " + Count(f.Denied) + " denied"
	if f.WouldDeny > 0 {
		s += ", " + Count(f.WouldDeny) + " that would be denied"
	}
	if f.Degraded > 0 {
		s += ", " + Count(f.Degraded) + " by fail modes (" + FailModeWords(&f) + ")"
	}
	return s + " in " + t.Range.Words()
}

// sumWords describes the chart, and the range that it is compared with.
func (t *Timeline) sumWords() string {
	var parts []string
	if t.known() {
		parts = append(parts, t.totals())
	}
	if t.Earlier != nil {
		parts = append(parts, t.earlierTotals())
	}
	return strings.Join(parts, "; ")
}

// earlierTotals describes the range that this one is compared with.
func (t *Timeline) earlierTotals() string {
	s := history.Series{Points: t.Earlier}
	f, _ := s.Sum()
	words := "the period before"
	if t.Range.Compare == "yesterday" {
		words = "a day earlier"
	}
	if !anyKnown(t.Earlier) {
		return "nothing is known of " + strings.Replace(words, "a day", "the time a day", 1)
	}
	return Count(f.Allowed) + " allowed, " + Count(f.Denied) + " denied " + words
}

// zoom is the page with the range of a brush, which the script fills in.
func (t *Timeline) zoom() string {
	return t.Page.Set(append(between(t.Range.From, t.Range.To), "compare", t.Range.Compare)...).URL()
}

// moment is the address of the requests of a point.
func (t *Timeline) moment(at time.Time) string {
	return t.Moment.Set(between(at, at.Add(t.Range.Width))...).URL()
}

// FailModeWords says how fail modes decided, as in "744 allowed, 168 denied".
func FailModeWords(f *history.Figures) string {
	return Count(f.Degraded-f.DegradedDenied) + " allowed, " + Count(f.DegradedDenied) + " denied"
}

// countOf is a figure of a point for people.
func countOf(p history.Point, l layer) string {
	if !p.Known {
		return "–"
	}
	if l.strip && p.DegradedDenied > 0 {
		return Count(p.Degraded) + " (" + Count(p.DegradedDenied) + " denied)"
	}
	return Count(l.count(&p.Figures))
}

// rateOf is countOf as requests per second, "" for what is not known.
func (t *Timeline) rateOf(p history.Point, l layer) string {
	if !p.Known {
		return ""
	}
	return PerSecond(t.rate(l.count(&p.Figures)))
}
