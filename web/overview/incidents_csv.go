package overview

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/history/incident"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/web/kit"
)

// pathIncidentsCSV is the download of what the page of incidents shows.
const pathIncidentsCSV = kit.PathIncidents + ".csv"

// incidentsCSV sends the incidents that the address selects, like GET /ratelimit/incidents?format=csv: for each a line
// for all requests, without a rule, and one for each rule.
func (p *Pages) incidentsCSV(v *kit.Visit) error {
	asked, bad := askedIncidents(v.QueryParams(), p.Now())
	if len(bad) > 0 {
		return &field.ValidationError{Fields: bad}
	}
	var m Incidents
	found, err := p.Incidents.Incidents(v.Ctx, asked)
	if err := m.incomplete(err); err != nil {
		return err
	}
	rows := [][]string{{"id", "kind", "state", "begin", "end", "updated", "node", "node_id", "server", "cause", "opened",
		"merged", "rule", "open", "local", "closed", "denied"}}
	for i := range found {
		rows = append(rows, incidentRows(&found[i], asked.Rule)...)
	}
	var buf bytes.Buffer
	if err := csv.NewWriter(&buf).WriteAll(rows); err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	name := "incidents"
	if m.Partial {
		name += "-incomplete"
	}
	v.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	return v.Blob(http.StatusOK, "text/csv; charset=utf-8", buf.Bytes())
}

// incidentRows are the lines of an incident, of one rule or of all rules.
func incidentRows(i *incident.Incident, rule string) [][]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	same := []string{chars.Cell(i.ID), i.Kind, stateOf(i), moment(i.Begin), moment(i.End), moment(i.Updated),
		chars.Cell(i.Node), chars.Cell(i.NodeID), chars.Cell(i.Server), chars.Cell(i.Cause), number(i.Opened),
		number(i.Merged)}
	line := func(r *incident.Rule) []string {
		return append(same[:len(same):len(same)], chars.Cell(r.Rule), number(r.Open), number(r.Local), number(r.Closed),
			number(r.Denied))
	}
	out := [][]string{line(&i.Total)}
	for n := range i.Rules {
		if r := &i.Rules[n]; rule == "" || r.Rule == rule {
			out = append(out, line(r))
		}
	}
	return out
}

// stateOf says whether an incident lasts, and why not.
func stateOf(i *incident.Incident) string {
	switch {
	case i.Lost:
		return "lost"
	case i.Running():
		return "running"
	case i.Stopped:
		return "stopped"
	}
	return "ended"
}
