package doctor_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/rules"
)

// now is the time of every examination. The last day of whole hours ends at its hour.
var now = time.Date(2026, 11, 23, 10, 20, 30, 0, time.UTC)

// played is a history.Source of traffic that a test plays, of which figures are known since a time. It is an
// OverrideLister too.
type played struct {
	known     time.Time
	decisions []decision
	// rest is that of keys, error that of rows.
	rest, error int64
	// blurred is whether the keys are too many for the counts of the most active ones to be sure.
	blurred   bool
	partial   error
	overrides []rules.Override
}

type decision struct {
	rule, key string
	at        time.Time
	history.Figures
}

func (p *played) play(rule, key string, at time.Time, times int64, one history.Figures) {
	d := decision{rule: rule, key: key, at: at}
	counts := one.Array()
	for i := range counts {
		counts[i] *= times
	}
	d.Figures = history.FiguresOf(counts)
	d.Use, d.Failed, d.DegradedDenied = one.Use, one.Failed*times, one.DegradedDenied*times
	p.decisions = append(p.decisions, d)
}

func (p *played) allow(key string, at time.Time, times int64) {
	p.play("r", key, at, times, history.Figures{Allowed: 1})
}

func (p *played) deny(key string, at time.Time, times int64) {
	p.play("r", key, at, times, history.Figures{Denied: 1})
}

// Stats implements history.Source.
func (p *played) Stats(_ context.Context, q history.Query) (history.Result, error) {
	if err := q.Validate(); err != nil {
		return history.Result{}, err
	}
	out := history.Result{From: q.From, To: q.To, Step: q.Step, TopRest: p.rest, Partial: p.partial}
	var points []history.Point
	for at := q.From; at.Before(q.To); at = at.Add(q.Step) {
		points = append(points, history.Point{At: at, Known: !at.Before(p.known), Peak: -1})
	}
	rows, seconds := map[string]*history.Row{}, map[time.Time]int64{}
	sketches := history.NewSketches()
	for _, d := range p.decisions {
		if d.rule != q.Rule || d.at.Before(q.From) || !d.at.Before(q.To) || d.at.Before(p.known) {
			continue
		}
		point := &points[d.at.Sub(q.From)/q.Step]
		point.Add(d.Figures)
		second := d.at.Truncate(time.Second)
		seconds[second] += d.Total()
		point.Peak = max(point.Peak, seconds[second])
		row := rows[d.key]
		if row == nil {
			row = &history.Row{Key: d.key, Error: p.error}
			rows[d.key] = row
		}
		row.Allowed += d.Allowed
		row.Denied += d.Denied
		if d.Denied > 0 {
			sketches.Denied(d.key)
		}
		if p.blurred {
			row.Error += d.Total()
			out.TopRest = max(out.TopRest, row.Error)
		}
	}
	out.Series = []history.Series{{Rule: q.Rule, Points: points}}
	if q.By != "" {
		out.Denied = sketches.Tops()[history.ByKey].Denied
		for _, row := range rows {
			out.Top = append(out.Top, *row)
		}
		slices.SortFunc(out.Top, func(a, b history.Row) int {
			return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
		})
	}
	return out, nil
}

// ListOverrides implements doctor.OverrideLister.
func (p *played) ListOverrides(_ context.Context, q rules.OverrideQuery) (rules.OverridePage, error) {
	var out rules.OverridePage
	for _, o := range p.overrides {
		if o.RuleID == q.RuleID {
			out.Overrides = append(out.Overrides, o)
		}
	}
	return out, nil
}

var _ doctor.OverrideLister = (*played)(nil)
