package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/history/incident"
	"sluice/rules"
)

// shownRules is the largest number of rules of an incident in a response; the rest are counted as incident.OtherRules.
const shownRules = 100

// errNoIncidentsElsewhere says what is missing while the rule database is unavailable.
var errNoIncidentsElsewhere = errors.New(
	"the rules database is unavailable, so only incidents that this node remembers are listed")

// incidentPage is the response to GET /ratelimit/incidents.
type incidentPage struct {
	Incidents []incidentReply `json:"incidents"`
	Partial   string          `json:"partial,omitempty"`
}

// incidentReply is one incident.
type incidentReply struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	State string `json:"state"`
	// Begin and the other times are in UTC. End is null while the incident lasts, and if it is not known.
	Begin   time.Time  `json:"begin"`
	End     *time.Time `json:"end"`
	Updated time.Time  `json:"updated"`
	Node    string     `json:"node"`
	NodeID  string     `json:"node_id"`
	Nodes   []string   `json:"nodes"`
	// Server is null for kinds that are not about Redis or regions.
	Server *string        `json:"server"`
	Cause  string         `json:"cause"`
	Opened int64          `json:"opened"`
	Merged int64          `json:"merged"`
	Total  byFailMode     `json:"total"`
	Rules  []incidentRule `json:"rules"`
}

// byFailMode are the decisions by fail modes.
type byFailMode struct {
	Open   int64 `json:"open"`
	Local  int64 `json:"local"`
	Closed int64 `json:"closed"`
	Denied int64 `json:"denied"`
}

type incidentRule struct {
	Rule string `json:"rule"`
	byFailMode
}

// listIncidents sends when nodes could not use Redis or the rules database, and the decisions of fail modes during that
// time.
func (s *Server) listIncidents(c echo.Context) error {
	q, err := parseQuery(c, "from", "to", "node", "rule", "format")
	if err != nil {
		return err
	}
	format := q.oneOf("format", "json", "csv")
	want := q.incidents(s.deps.Now())
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.deps.Incidents.Incidents(c.Request().Context(), want)
	var partial error
	switch {
	case errors.Is(err, rules.ErrUnavailable):
		partial = errNoIncidentsElsewhere
	case err != nil:
		return err
	}
	if format == "csv" {
		return sendCSV(c, "incidents.csv", partial, incident.Header, func(yield func([]string) bool) {
			for i := range found {
				for _, line := range found[i].Records(rulesOf(&found[i], want.Rule)) {
					if !yield(line) {
						return
					}
				}
			}
		})
	}
	page := incidentPage{Incidents: make([]incidentReply, len(found))}
	for i := range found {
		page.Incidents[i] = incidentOf(&found[i], want.Rule)
	}
	if partial != nil {
		page.Partial = partial.Error()
	}
	return writeJSON(c, http.StatusOK, page)
}

// incidents reads what GET /ratelimit/incidents asks for. Empty parameters are the same as absent ones.
func (q *query) incidents(now time.Time) incident.Query {
	out := incident.Query{From: q.instant("from"), To: q.instant("to"), Node: q.values.Get("node"),
		Rule: q.ruleName()}
	if !out.To.IsZero() && out.From.IsZero() { // as the source understands it
		out.From = now.Add(-incident.Kept)
	}
	if !q.complained("from") && !q.complained("to") {
		q.add(out.Validate())
	}
	return out
}

// incidentOf converts an incident: with the counts of one rule, or of the rules with the most decisions.
func incidentOf(in *incident.Incident, rule string) incidentReply {
	out := incidentReply{ID: in.ID, Kind: in.Kind, Key: in.Key, State: in.State(), Begin: in.Begin.UTC(),
		Updated: in.Updated.UTC(), Node: in.Node, NodeID: in.NodeID, Nodes: append([]string{}, in.Nodes...), Cause: in.Cause,
		Opened: in.Opened, Merged: in.Merged, Total: failModes(&in.Total), Rules: []incidentRule{}}
	if !in.End.IsZero() {
		end := in.End.UTC()
		out.End = &end
	}
	if in.Server != "" {
		out.Server = &in.Server
	}
	for _, r := range rulesOf(in, rule) {
		out.Rules = append(out.Rules, incidentRule{r.Rule, failModes(&r)})
	}
	return out
}

// rulesOf are the rules of an incident in a response: one, or the rules with the most decisions.
func rulesOf(in *incident.Incident, rule string) (out []incident.Rule) {
	if rule != "" {
		r, _ := in.Rule(rule)
		return []incident.Rule{r}
	}
	other := incident.Rule{Rule: incident.OtherRules}
	for _, r := range in.Rules {
		if len(out) < shownRules && r.Rule != incident.OtherRules {
			out = append(out, r)
		} else {
			other.Add(r)
		}
	}
	if other.Decided() > 0 {
		out = append(out, other)
	}
	return out
}

func failModes(r *incident.Rule) byFailMode {
	return byFailMode{Open: r.Open, Local: r.Local, Closed: r.Closed, Denied: r.Denied}
}
