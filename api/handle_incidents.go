package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/chars"
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

// incident is one incident of a node.
type incidentReply struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// State is a value of stateOf.
	State string    `json:"state"`
	Begin time.Time `json:"begin"`
	// End is null while the incident lasts, and if it is not known.
	End     *time.Time `json:"end"`
	Updated time.Time  `json:"updated"`
	Node    string     `json:"node"`
	NodeID  string     `json:"node_id"`
	// Server is null for kinds that are not about Redis.
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

// listIncidents sends when nodes could not use Redis or the rule database, and what was decided meanwhile.
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
	page := incidentPage{Incidents: make([]incidentReply, len(found))}
	for i := range found {
		page.Incidents[i] = incidentOf(&found[i], want.Rule)
	}
	if format == "csv" {
		return sendCSV(c, "incidents.csv", partial, incidentHeader, incidentRecords(page.Incidents))
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

// stateOf says whether an incident lasts, and why not.
func stateOf(in *incident.Incident) string {
	switch {
	case in.Lost:
		return "lost"
	case in.Running():
		return "running"
	case in.Stopped:
		return "stopped"
	}
	return "ended"
}

// incidentOf converts an incident: with the counts of one rule, or of the rules with the most decisions.
func incidentOf(in *incident.Incident, rule string) incidentReply {
	out := incidentReply{ID: in.ID, Kind: in.Kind, State: stateOf(in), Begin: in.Begin.UTC(), Updated: in.Updated.UTC(),
		Node: in.Node, NodeID: in.NodeID, Cause: in.Cause, Opened: in.Opened, Merged: in.Merged,
		Total: failModes(&in.Total), Rules: []incidentRule{}}
	if !in.End.IsZero() {
		end := in.End.UTC()
		out.End = &end
	}
	if in.Server != "" {
		out.Server = &in.Server
	}
	if rule != "" {
		r, _ := in.Rule(rule)
		out.Rules = append(out.Rules, incidentRule{rule, failModes(&r)})
		return out
	}
	var other incident.Rule
	for i := range in.Rules {
		if r := &in.Rules[i]; len(out.Rules) < shownRules && r.Rule != incident.OtherRules {
			out.Rules = append(out.Rules, incidentRule{r.Rule, failModes(r)})
		} else {
			other.Add(*r)
		}
	}
	if other.Decided() > 0 {
		out.Rules = append(out.Rules, incidentRule{incident.OtherRules, failModes(&other)})
	}
	return out
}

func failModes(r *incident.Rule) byFailMode {
	return byFailMode{Open: r.Open, Local: r.Local, Closed: r.Closed, Denied: r.Denied}
}

// incidentHeader is the first line of incidents as CSV.
var incidentHeader = []string{"id", "kind", "state", "begin", "end", "updated", "node", "node_id", "server", "cause",
	"opened", "merged", "rule", "open", "local", "closed", "denied"}

// incidentRecords yields for each incident a line for all requests, without a rule, and one for each rule.
func incidentRecords(list []incidentReply) func(yield func([]string) bool) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return func(yield func([]string) bool) {
		for i := range list {
			in := &list[i]
			var end, server string
			if in.End != nil {
				end = in.End.Format(time.RFC3339Nano)
			}
			if in.Server != nil {
				server = *in.Server
			}
			same := []string{in.ID, in.Kind, in.State, in.Begin.Format(time.RFC3339Nano), end,
				in.Updated.Format(time.RFC3339Nano), in.Node, in.NodeID, server, in.Cause, number(in.Opened), number(in.Merged)}
			for n := range same {
				same[n] = chars.Cell(same[n])
			}
			line := func(rule string, m *byFailMode) bool {
				return yield(append(same[:len(same):len(same)], chars.Cell(rule), number(m.Open), number(m.Local),
					number(m.Closed), number(m.Denied)))
			}
			if !line("", &in.Total) {
				return
			}
			for n := range in.Rules {
				if !line(in.Rules[n].Rule, &in.Rules[n].byFailMode) {
					return
				}
			}
		}
	}
}
