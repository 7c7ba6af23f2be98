package traffic

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// Page is the page of traffic.
type Page struct {
	Query view.Query
	Range view.Range
	// Timeline is the chart of the range.
	Timeline view.Timeline
	// Rule is the rule that the page is filtered by, "" for all requests. RuleID is 0 if none in force has the name.
	Rule   string
	RuleID int64
	// Problems are the invalid parts of the address, except its range. The page applies the valid parts.
	Problems []field.Problem
	// Failed says why there are no figures, "" if there are.
	Failed string
	// Series are the figures over time, Sum and Peak the figures of the range if it is Known.
	Series history.Series
	Sum    history.Figures
	Peak   int64
	Known  bool
	// KnownSince is the first known point if no earlier point of the range is known, otherwise the zero time.
	KnownSince time.Time
	// Growing means that figures of the range may still grow: those after CompleteUntil, or all if that is the zero time.
	Growing       bool
	CompleteUntil time.Time
	// Partial says what is missing, nil if nothing is.
	Partial error
	Table   Table
	// Names are the rules to choose from.
	Names []string
}

// usualRange is the range of the page without one in its address.
const usualRange = "1h"

// kept are the parameters of the address.
var kept = append([]string{"by", "rule", "q", "sort", "desc"}, view.RangeParams...)

// show shows the page. An address with an impossible filter gets the status 422 and the page without that filter.
func (p *Pages) show(v *kit.Visit) error {
	m := p.model(v)
	status := http.StatusOK
	if len(m.Problems)+len(m.Range.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	m.Names = p.RuleNames()
	return v.Page(status, trafficPage(v.Frame("Traffic", kit.PathTraffic), m))
}

// model is the page that the address asks for.
func (p *Pages) model(v *kit.Visit) Page {
	m := p.ask(v)
	if err := p.read(v, &m); err != nil {
		m.refuse(err)
		if m.Failed != "" {
			p.Logger.Warn("the console could not read figures of traffic", "error", err)
		}
	}
	return m
}

// ask reads the address.
func (p *Pages) ask(v *kit.Visit) Page {
	q := v.QueryParams()
	m := Page{Query: view.NewQuery(kit.PathTraffic, q, kept...), Rule: q.Get("rule"), Peak: -1,
		Range: view.ParseRange(q, p.Now(), usualRange)}
	m.Table.By = history.ByRule
	if by := q.Get("by"); pivots[by] != "" {
		m.Table.By = by
	} else if by != "" {
		m.Problems = append(m.Problems, field.Problem{Field: "by",
			Message: "must be one of " + strings.Join(history.Pivots, ", ") + "; the table is by rule"})
	}
	m.RuleID = p.IDs(m.Rule)[m.Rule]
	return m
}

// refuse notes why there are no figures.
func (m *Page) refuse(err error) {
	var invalid *field.ValidationError
	switch {
	case errors.As(err, &invalid):
		m.Problems = append(m.Problems, invalid.Fields...)
		m.Failed = "The address of the page asks for something that does not exist. Choose another range, rule or table."
	case errors.Is(err, rules.ErrNotFound):
		m.Problems = append(m.Problems, field.Problem{Field: "rule", Message: "no rule has this name, and none had it " +
			"while figures were kept"})
		m.Failed = "There are no figures of a rule with this name."
	default:
		m.Failed = "The figures could not be read. Requests are still being rate-limited. Reload the page to try again."
	}
}

// read fills in the figures.
func (p *Pages) read(v *kit.Visit, m *Page) error {
	t := &m.Table
	res, rest, err := p.answers(v, m)
	if err != nil {
		return err
	}
	m.Partial = cmp.Or(res.Partial, rest.Partial)
	if len(res.Series) > 0 {
		m.Series = res.Series[0]
	}
	m.Sum, m.Peak = m.Series.Sum()
	if i := slices.IndexFunc(m.Series.Points, knownPoint); i >= 0 {
		m.Known = true
		if i > 0 {
			m.KnownSince = m.Series.Points[i].At
		}
	}
	m.Growing, m.CompleteUntil = res.CompleteUntil.Before(res.To), res.CompleteUntil
	t.From, t.To = rest.TopFrom, rest.TopTo
	t.Wider = t.From.Before(rest.From) || t.To.After(rest.To)
	if err := p.whole(v, t, &rest); err != nil {
		return err
	}
	t.Bounded, t.Rest = len(rest.Top) >= history.MaxRows, rest.TopRest
	t.LineStep = rest.LineStep
	ids := p.IDs(keysOf(rest.Top)...)
	for _, row := range rest.Top {
		l := Line{Row: row}
		if t.LineStep > 0 { // what still grows would look like a fall
			l.Line = l.Line[:min(len(l.Line), max(0, int(p.Now().Sub(t.From)/t.LineStep)))]
		}
		m.lead(&l, ids)
		t.Lines = append(t.Lines, l)
	}
	t.arrange(m.Query)
	return nil
}

// answers returns the figures of the chart, and the rows. The rows come from another answer if they cover all requests.
func (p *Pages) answers(v *kit.Visit, m *Page) (series, rows history.Result, err error) {
	by := m.Table.By
	if m.Table.ofAll(m.Rule) {
		by = ""
	}
	m.Timeline, series, err = v.Timeline(m.Rule, by, m.Range, m.Query)
	if err != nil || by != "" {
		return series, series, err
	}
	q := m.Range.Query("")
	q.By = m.Table.By
	rows, err = p.Stats.Stats(v.Ctx, q)
	return series, rows, err
}

// whole finds the total to which the shares of rows refer. It is the sum of the series of the answer, unless the rows
// are counted by longer steps.
func (p *Pages) whole(v *kit.Visit, t *Table, res *history.Result) error {
	series := res.Series
	if t.Wider {
		q := history.Query{From: t.From, To: t.To, Step: time.Minute}
		for _, step := range []time.Duration{time.Hour, history.Day} {
			if t.From.Truncate(step).Equal(t.From) && t.To.Truncate(step).Equal(t.To) {
				q.Step = step
			}
		}
		if len(series) > 0 {
			q.Rule = series[0].Rule
		}
		wider, err := p.Stats.Stats(v.Ctx, q)
		if err != nil {
			return err
		}
		series = wider.Series
	}
	if len(series) > 0 {
		t.Of, _ = series[0].Sum()
		t.Known = slices.ContainsFunc(series[0].Points, knownPoint)
	}
	return nil
}

func knownPoint(p history.Point) bool { return p.Known }

// lead sets the links of a row.
func (m *Page) lead(l *Line, ids map[string]int64) {
	requests := view.NewQuery(kit.PathRequests, nil).Set("rule", m.Rule)
	switch m.Table.By {
	case history.ByRule:
		page := Link{view.RuleLink(ids, l.Key), "Rule", "The rule " + l.Key}
		if l.Link = m.Query.Set("rule", l.Key, "by", history.ByKey, "q", "").URL(); l.Key == m.Rule {
			l.Link = page.Path
			return
		}
		l.More = append(l.More, page)
	case history.ByKey:
		l.Link = requests.With("key", l.Key)
		if m.Rule != "" {
			l.Link = view.KeyLink(m.Rule, l.Key)
			l.More = append(l.More, Link{requests.With("key", l.Key), "Requests", "Requests of " + l.Key})
		}
	case history.ByRoute:
		l.Link = requests.With("route", l.Key)
	case history.ByTenant:
		l.Link = view.TenantLink(l.Key)
		l.More = append(l.More, Link{requests.With("tenant", l.Key), "Requests", "Requests of " + l.Key})
	case history.ByNode:
		l.Link = kit.PathNodes
	}
}

func keysOf(rows []history.Row) []string {
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	return keys
}

// everything is the page without the filter by rule.
func (m *Page) everything() string {
	return m.Query.Set("rule", "", "by", "", "q", "").URL()
}

// ruleLink is the address of the page of the rule.
func (m *Page) ruleLink() string { return view.RuleLink(map[string]int64{m.Rule: m.RuleID}, m.Rule) }

// stream is the address of the page's stream.
func (m *Page) stream() string { return m.Query.At("/console/events").With("of", "traffic") }

// file is the address of a CSV file: of the table, or of series.
func (m *Page) file(of string) string { return m.Query.At(pathCSV).With("of", of) }

// partOf writes which part of all decisions a number is, "" if there are none.
func (m *Page) partOf(n int64) string {
	if !m.Known || m.Sum.Total() == 0 {
		return ""
	}
	return view.Percent(n, m.Sum.Total()) + " of all"
}

// byFailModes describes the decisions of fail modes, "" if there are none.
func (m *Page) byFailModes() string {
	if !m.Known || m.Sum.Degraded == 0 {
		return m.partOf(m.Sum.Degraded)
	}
	return m.partOf(m.Sum.Degraded) + ": " + view.FailModeWords(&m.Sum)
}
