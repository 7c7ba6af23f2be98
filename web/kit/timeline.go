package kit

import (
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/view"
)

// Timeline returns the chart of a rule ("" for all requests) over a range, with its marks, and the answer that it
// shows. by has the meaning of By in a history.Query. page is the address of the page. With an error, the chart says
// that its figures could not be read.
func (v *Visit) Timeline(rule, by string, r view.Range, page view.Query) (view.Timeline, history.Result, error) {
	t := view.Timeline{ID: "timeline", Range: r, Page: page,
		Moment: view.NewQuery(PathRequests, nil).Set("rule", rule)}
	q := r.Query(rule)
	q.By = by
	answer, err := v.kit.Stats.Stats(v.Ctx, q)
	if err != nil {
		t.Unreadable = true
		t.Points = r.Widen(nil)
		return t, answer, err
	}
	t.Points = r.Widen(answer.Series[0].Points)
	if e, ok := r.Earlier(); ok {
		if before, err := v.kit.Stats.Stats(v.Ctx, e.Query(rule)); err == nil {
			t.Earlier = e.Widen(before.Series[0].Points)
		}
	}
	t.Marks = v.Marks(rule, r.From, r.To)
	return t, answer, nil
}

// Marks returns the marks of a rule for a chart, or the marks of all rules if rule is "".
func (v *Visit) Marks(rule string, from, to time.Time) view.Marks {
	list, err := v.kit.Marks.Marks(v.Ctx, rule, from, to)
	return view.Marks{From: from, To: to, List: list, Few: err != nil, CanEdit: v.CanChange(access.RoleEditor)}
}
