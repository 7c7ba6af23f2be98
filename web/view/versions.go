package view

import (
	"time"

	"sluice/internal/history"
)

// versionApart is the smallest distance between two versions in a chart, in percent of its width. If versions are
// nearer, only the newest is shown.
const versionApart = 8

// versions are the changes that have the number of their version in the chart.
func (m *Marks) versions() (out []*history.Mark) {
	whole := float64(max(1, m.To.Sub(m.From)))
	var next time.Time
	for i := len(m.List) - 1; i >= 0; i-- {
		one := &m.List[i]
		if one.Version == 0 || !m.within(one) || !next.IsZero() && 100*float64(next.Sub(one.At)) < versionApart*whole {
			continue
		}
		out, next = append(out, one), one.At
	}
	return out
}

// side is where the number of a version is: at the right of its line, or at the left of one near the end.
func (m *Marks) side(one *history.Mark) string {
	if 100*float64(m.To.Sub(one.At)) < versionApart*float64(m.To.Sub(m.From)) {
		return "end"
	}
	return "start"
}
