package api

import (
	"encoding/csv"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/records"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
)

// usualRange is the time that figures cover if a request names no beginning.
const usualRange = time.Hour

// headerPartial says in an answer as CSV what is missing in it. JSON has a member for that.
const headerPartial = "Sluice-Partial"

// errNoFiguresOf means that a rule of that name neither exists nor has figures.
var errNoFiguresOf error = reply.NotFound.Problem("The rule is not in force and has no figures in this range.")

// figures sends what was decided over time, and who made the traffic.
func (s *Server) figures(c echo.Context) error {
	q, err := parseQuery(c, "rule", "by", "from", "to", "step", "format")
	if err != nil {
		return err
	}
	format := q.oneOf("format", "json", "csv")
	want := q.figures(s.deps.Now().UTC())
	if err := q.err(); err != nil {
		return err
	}
	r, err := s.deps.Stats.Stats(c.Request().Context(), want)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		return errNoFiguresOf
	case err != nil:
		return err
	}
	if format == "csv" {
		return sendCSV(c, "stats.csv", r.Partial, statsHeader, statsRecords(&r))
	}
	return write(c, http.StatusOK, jsonType, appendStats(nil, &r, s.deps.DecisionLogs))
}

// figures reads what GET /ratelimit/stats asks for. Empty parameters are the same as absent ones.
func (q *query) figures(now time.Time) history.Query {
	out := history.Query{Rule: q.ruleName(), By: q.values.Get("by")}
	if out.By == "" && out.Rule == "" {
		out.By = history.ByRule
	}
	out.Series = out.By == history.ByRule && out.Rule == ""
	out.From, out.To = q.instant("from"), q.instant("to")
	begins, ends := !out.From.IsZero(), !out.To.IsZero()
	if !ends {
		out.To = now
	}
	if !begins {
		out.From = out.To.Add(-usualRange)
	}
	if begins && !ends && !q.complained("from") && !out.From.Before(out.To) {
		q.wrong("from", "must be before now, unless to is given")
	}
	if q.complained("from") || q.complained("to") {
		out.From, out.To = now.Add(-usualRange), now // cannot fail
	}
	if step := q.values.Get("step"); step != "" {
		out.Step = history.ParseStep(step)
	} else {
		out.Step = history.UsualStep(out.From, out.To)
	}
	q.add(out.Validate())
	return out
}

// instant reads a time; the zero time if it is absent or none.
func (q *query) instant(name string) time.Time {
	text := q.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, err := field.ParseInstant(text)
	switch {
	case err != nil && strings.Contains(text, " "):
		q.wrong(name, err.Error()+"; the query has %2B for a +")
	case err != nil:
		q.wrong(name, err.Error())
	case at.Unix() < 0 || at.Year() > 9999:
		q.wrong(name, "must be a time from 1970 to 9999")
	default:
		return at
	}
	return time.Time{}
}

// ruleName reads the name of a rule that may be deleted; "" if it is absent or none.
func (q *query) ruleName() string {
	name := q.values.Get("rule")
	if name != "" && name != incident.OtherRules && !field.ValidName(name) {
		q.wrong("rule", "must be the name of a rule")
		return ""
	}
	return name
}

// complained reports whether an error names a parameter.
func (q *query) complained(name string) bool {
	return slices.ContainsFunc(q.errs, func(e field.Problem) bool { return e.Field == name })
}

// add adds the errors of a *field.ValidationError, one for each parameter.
func (q *query) add(err error) {
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) {
		return
	}
	for _, e := range invalid.Fields {
		if !q.complained(e.Field) {
			q.errs = append(q.errs, e)
		}
	}
}

// appendStats writes a result and the accounts of decision logs as the schema Stats of openapi.yaml.
func appendStats(b []byte, r *history.Result, logs map[string]func() records.Totals) []byte {
	b = append(b, `{"from":`...)
	b = appendTime(b, r.From)
	b = append(b, `,"to":`...)
	b = appendTime(b, r.To)
	b = appendMember(b, "step_ms", r.Step.Milliseconds())
	b = append(b, `,"complete_until":`...)
	b = appendTime(b, r.CompleteUntil)
	if r.Partial != nil {
		b = append(b, `,"partial":`...)
		b = reply.AppendString(b, oneLine(r.Partial))
	}
	b = append(b, `,"series":[`...)
	for i := range r.Series {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSeries(b, &r.Series[i])
	}
	b = append(b, `],"top":[`...)
	for i := range r.Top {
		if i > 0 {
			b = append(b, ',')
		}
		row := &r.Top[i]
		b = append(b, `{"key":`...)
		b = reply.AppendString(b, row.Key)
		b = appendMember(b, "allowed", row.Allowed)
		b = appendMember(b, "denied", row.Denied)
		b = appendMember(b, "error", row.Error)
		b = append(b, '}')
	}
	b = append(b, ']')
	if n, mayDiffer, known := r.Denied.Estimate(); known {
		b = appendMember(b, "keys_denied", n)
		b = appendMember(b, "keys_denied_error", mayDiffer)
	} else {
		b = append(b, `,"keys_denied":null,"keys_denied_error":null`...)
	}
	if len(logs) > 0 {
		b = append(b, `,"decision_log":{`...)
		for i, sink := range slices.Sorted(maps.Keys(logs)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(reply.AppendString(b, sink), ':')
			b = append(b, field.JSONText(logs[sink]())...)
		}
		b = append(b, '}')
	}
	return append(b, "}\n"...)
}

// appendSeries writes a series; an unknown point has null for every figure.
func appendSeries(b []byte, s *history.Series) []byte {
	b = append(b, `{"rule":`...)
	b = appendNullable(b, s.Rule)
	b = append(b, `,"points":[`...)
	for i := range s.Points {
		p := &s.Points[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, p.At.UnixMilli(), 10)
		for _, n := range p.Array() {
			b = append(b, ',')
			if p.Known {
				b = strconv.AppendInt(b, n, 10)
			} else {
				b = append(b, "null"...)
			}
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}

// appendTime writes a time of UTC, null for the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// statsHeader is the first line of figures as CSV. A test compares it with the members of Figures.
var statsHeader = append([]string{"time", "rule"}, history.FigureNames[:]...)

// statsRecords yields a line for each point; unknown values are empty.
func statsRecords(r *history.Result) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		cells := make([]string, 2+history.NumFigures)
		for i := range r.Series {
			cells[1] = chars.Cell(r.Series[i].Rule)
			for n := range r.Series[i].Points {
				p := &r.Series[i].Points[n]
				cells[0] = p.At.UTC().Format(time.RFC3339)
				for f, v := range p.Array() {
					if cells[2+f] = ""; p.Known {
						cells[2+f] = strconv.FormatInt(v, 10)
					}
				}
				if !yield(cells) {
					return
				}
			}
		}
	}
}

// sendCSV sends a file.
func sendCSV(c echo.Context, name string, partial error, header []string, records func(func([]string) bool)) error {
	h := c.Response().Header()
	h["Content-Type"] = []string{mediaCSV + "; charset=utf-8; header=present"}
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if partial != nil {
		h.Set(headerPartial, oneLine(partial))
	}
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	w := csv.NewWriter(c.Response())
	_ = w.Write(header) // Flush returns the error
	for cells := range records {
		if w.Write(cells) != nil {
			break
		}
	}
	w.Flush() // fails only if the client closed the connection
	return nil
}

// oneLine is the text of joined errors.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
