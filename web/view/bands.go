package view

import (
	"time"

	"sluice/internal/history"
)

// band is the time of an incident in a chart, in percent of its width.
type band struct {
	mark          *history.Mark
	left, breadth string
}

// leastBand is the smallest width of a band, in percent: a short incident is visible in a chart of 30 days.
const leastBand = 0.3

// bands are the incidents of the chart.
func (m *Marks) bands() (out []band) {
	whole := float64(max(1, m.To.Sub(m.From)))
	for i := range m.List {
		one := &m.List[i]
		if !one.Incident || !one.Overlaps(m.From, m.To) {
			continue
		}
		left := 100 * float64(max(0, one.At.Sub(m.From))) / whole
		right := 100 * float64(m.until(one).Sub(m.From)) / whole
		out = append(out, band{one, Tenths(left) + "%", Tenths(max(leastBand, right-left)) + "%"})
	}
	return out
}

// until is when an incident is over in the chart.
func (m *Marks) until(one *history.Mark) time.Time {
	if one.Until.IsZero() || one.Until.After(m.To) {
		return m.To
	}
	return one.Until
}

// within reports whether a mark is at an instant of the chart, so that it has a line.
func (m *Marks) within(one *history.Mark) bool { return !one.At.Before(m.From) && one.At.Before(m.To) }

// titleOf says what happened, for one who points at it.
func titleOf(m *history.Mark) string {
	text := m.Text + who(m)
	if m.Rule != "" {
		text = m.Rule + " " + text
	}
	if m.Incident && m.Until.IsZero() {
		text += ", not over yet"
	}
	return text
}
