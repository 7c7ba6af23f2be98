package kit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/usage"
	"sluice/rules"
)

const (
	// shownPeriods is how many periods of a statement pages show.
	shownPeriods = 13
	// statementTimeout bounds reading a statement for a page: adding up the keys of a rule with millions takes longer.
	statementTimeout = 2 * time.Second
)

// Statement is what keys of a rule with keep_periods have spent in its newest periods.
type Statement struct {
	// Periods are the newest ones for which there are rows, the newest first.
	Periods []usage.Total
	// Unread means that it could not be read in time.
	Unread bool
}

// Most is the largest count of a period.
func (s *Statement) Most() (most int64) {
	for _, p := range s.Periods {
		most = max(most, p.Spent)
	}
	return most
}

// Before returns the newest period that began before an instant (ms), nil if there is none.
func (s *Statement) Before(instant int64) *usage.Total {
	for i := range s.Periods {
		if s.Periods[i].Period < instant {
			return &s.Periods[i]
		}
	}
	return nil
}

// StatementOf reads the statement of a rule, of one key (usage.Row.Key) or of all if it is "". It is nil for a rule
// without keep_periods.
func (k *Kit) StatementOf(ctx context.Context, r *rules.Rule, key string) *Statement {
	if r.KeepPeriods == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	periods, err := k.Statements.UsagePeriods(ctx, r.ID, shownPeriods)
	var s Statement
	if err == nil {
		s.Periods, err = k.Statements.UsageTotals(ctx, r.ID, key, periods)
	}
	if s.Unread = err != nil; s.Unread {
		k.Logger.Warn("the console could not read a statement", "rule", r.Name, "error", err)
	}
	slices.SortFunc(s.Periods, func(a, b usage.Total) int { return cmp.Compare(b.Period, a.Period) })
	return &s
}
