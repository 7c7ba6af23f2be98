package overview

import (
	"bytes"
	"encoding/csv"
	"net/http"
	"slices"

	"sluice/internal/history/incident"
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
	rows := [][]string{incident.Header}
	for i := range found {
		rows = append(rows, found[i].Records(slices.DeleteFunc(slices.Clone(found[i].Rules), func(r incident.Rule) bool {
			return asked.Rule != "" && r.Rule != asked.Rule
		}))...)
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
