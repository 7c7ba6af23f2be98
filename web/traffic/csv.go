package traffic

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/history"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// download sends the table of the page, or with of=series its figures over time, as CSV. Unknown figures are empty
// cells.
func (p *Pages) download(v *kit.Visit) error {
	m := p.ask(v)
	if problems := slices.Concat(m.Range.Problems, m.Problems); len(problems) > 0 {
		return &field.ValidationError{Fields: problems}
	}
	if err := p.read(v, &m); err != nil {
		return err
	}
	name, rows := "traffic-by-"+m.Table.By, m.tableCSV()
	if v.QueryParam("of") == "series" {
		name, rows = "traffic-over-time", m.seriesCSV()
	}
	if m.Partial != nil {
		name += "-incomplete"
	}
	var buf bytes.Buffer
	if err := csv.NewWriter(&buf).WriteAll(rows); err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	v.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	return v.Blob(http.StatusOK, "text/csv; charset=utf-8", buf.Bytes())
}

// tableCSV are the rows of the table as the page shows them.
func (m *Page) tableCSV() [][]string {
	t := &m.Table
	out := [][]string{{t.By, "allowed", "denied", "error", "of_all", "of_denied", "peak_per_second", "from", "to"}}
	for i := range t.Lines {
		l := &t.Lines[i]
		out = append(out, []string{
			chars.Cell(l.Key), number(l.Allowed), number(l.Denied), number(l.Error), part(l.Total(), t.Of.Total(), t.Known),
			part(l.Denied, t.Of.Denied, t.Known), unless(l.Peak < 0, l.Peak), moment(t.From), moment(t.To),
		})
	}
	return out
}

// seriesCSV are the points of the chart.
func (m *Page) seriesCSV() [][]string {
	out := [][]string{slices.Concat([]string{"from", "step_seconds"}, history.FigureNames[:],
		[]string{"degraded_denied", "peak_per_second", "complete"})}
	for i := range m.Series.Points {
		p := &m.Series.Points[i]
		row := []string{moment(p.At), number(int64(m.Range.Step / time.Second))}
		for _, n := range p.Array() {
			row = append(row, unless(!p.Known, n))
		}
		row = append(row, unless(!p.Known, p.DegradedDenied))
		grows := m.Growing && p.At.Add(m.Range.Step).After(m.CompleteUntil)
		complete := strconv.FormatBool(p.Known && !grows)
		out = append(out, append(row, unless(!p.Known || p.Peak < 0, p.Peak), complete))
	}
	return out
}

func number(n int64) string { return view.Digits(n) }

// unless is a number, or an empty cell if it is unknown.
func unless(unknown bool, n int64) string {
	if unknown {
		return ""
	}
	return number(n)
}

// part is a part of a whole, from 0 to 1.
func part(n, whole int64, known bool) string {
	switch {
	case !known:
		return ""
	case whole <= 0:
		return "0"
	}
	return strconv.FormatFloat(min(1, float64(n)/float64(whole)), 'f', 4, 64)
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
