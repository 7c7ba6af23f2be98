package view

import (
	"time"

	"sluice/internal/history"
)

// Marks are what happened in the range of a chart.
type Marks struct {
	From, To time.Time
	List     []history.Mark
	// Few means that some could not be read. CanEdit offers to roll back changes.
	Few, CanEdit bool
}

// place is where an instant is in the chart, in percent.
func (m *Marks) place(at time.Time) string {
	whole := m.To.Sub(m.From)
	return Tenths(100*float64(at.Sub(m.From))/float64(max(1, whole))) + "%"
}

// markLink leads to the version of a change, "" for other marks.
func markLink(m *history.Mark) string {
	if m.RuleID == 0 {
		return ""
	}
	return string(RuleURL(m.RuleID, "#history"))
}

// rollbackLink leads to what a rollback to the version before a change would do, "" for other marks.
func (m *Marks) rollbackLink(one *history.Mark) string {
	if !m.CanEdit || one.RuleID == 0 || one.Version < 2 {
		return ""
	}
	return string(RuleURL(one.RuleID, "/rollback?to="+Digits(one.Version-1)))
}

// markKind is the color of a mark.
func markKind(m *history.Mark) string {
	if m.Kind == history.MarkBreaker {
		return "bad"
	}
	return "info"
}

// who says who made a change, and why.
func who(m *history.Mark) string {
	s := ""
	if m.Who != "" {
		s = " by " + m.Who
	}
	if m.Why != "" {
		s += ": " + m.Why
	}
	return s
}
