package overview

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

const (
	// incidentsPerPage is how many past incidents a page has.
	incidentsPerPage = 50
	// shownRules is how many rules of an incident the page lists.
	shownRules = 50
	// shownLive is the same for one that lasts.
	shownLive = 10
	// againAfter is how long a live page shows past incidents until it reads them again. Those that last are read every
	// second.
	againAfter = 30 * time.Second
)

// incidentRanges are the choices of the time filter. Addresses may have every range of other pages.
var incidentRanges = []string{"7d", "24h", "1h"}

// allIncidents is the default range.
const allIncidents = "30d"

// incidentFilters are the parameters of the address.
var incidentFilters = []string{"range", "from", "to", "node", "rule"}

// Incidents is the page of incidents.
type Incidents struct {
	// Running are the incidents that last, Past the others, newest first.
	Running, Past []incident.Incident
	Query         view.Query
	// Asked is what the address selects. Problems are what is wrong with it; nothing is listed then.
	Asked    incident.Query
	Problems []field.Problem
	// Partial means that the rule database is unavailable, so that these are incidents of this node only.
	Partial bool
	// Older is the address of the incidents before the last one, "" if there are none.
	Older string
	// Nodes and Rules are the choices of the filters, IDs the rules in force by name.
	Nodes, Rules []string
	IDs          map[string]int64
	Now          time.Time
}

// incidents lists incidents. An address with an impossible filter gets the status 422.
func (p *Pages) incidents(v *kit.Visit) error {
	m, err := p.incidentsOf(v)
	if err != nil {
		return err
	}
	m.Rules = p.RuleNames()
	for _, n := range p.Fleet.Live(v.Ctx).Nodes {
		m.Nodes = append(m.Nodes, n.Address)
	}
	for i := range m.Past {
		m.Nodes = append(append(m.Nodes, m.Past[i].Node), m.Past[i].Nodes...)
	}
	if node := m.Query.Get("node"); node != "" {
		m.Nodes = append(m.Nodes, node)
	}
	slices.Sort(m.Nodes)
	m.Nodes = slices.Compact(m.Nodes)
	status := http.StatusOK
	if len(m.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	return v.Page(status, incidentsPage(v.Frame("Incidents", kit.PathIncidents), m))
}

// incidentsOf returns the incidents that the address selects.
func (p *Pages) incidentsOf(v *kit.Visit) (Incidents, error) {
	q := v.QueryParams()
	m := Incidents{Query: view.NewQuery(kit.PathIncidents, q, incidentFilters...), Now: p.Now()}
	m.Asked, m.Problems = askedIncidents(q, m.Now)
	if len(m.Problems) > 0 {
		return m, nil
	}
	found, err := p.Incidents.Incidents(v.Ctx, m.Asked)
	if err := m.incomplete(err); err != nil {
		return m, err
	}
	for i := range found {
		if found[i].Running() {
			m.Running = append(m.Running, found[i])
			continue
		}
		if len(m.Past) == incidentsPerPage {
			last := &m.Past[incidentsPerPage-1]
			m.Older = m.Query.Set("to", last.Begin.Add(time.Millisecond).UTC().Format(time.RFC3339Nano), "range", "").URL()
			break
		}
		m.Past = append(m.Past, found[i])
	}
	m.IDs = p.ruleIDs(found)
	return m, nil
}

// incomplete notes that only incidents of this node are known. It returns any other error.
func (m *Incidents) incomplete(err error) error {
	m.Partial = errors.Is(err, rules.ErrUnavailable)
	if m.Partial {
		return nil
	}
	return err
}

func (p *Pages) ruleIDs(all []incident.Incident) map[string]int64 {
	var names []string
	for i := range all {
		for _, r := range all[i].Rules[:min(len(all[i].Rules), shownRules)] {
			names = append(names, r.Rule)
		}
	}
	return p.IDs(names...)
}

// askedIncidents reads the address.
func askedIncidents(q url.Values, now time.Time) (out incident.Query, bad []field.Problem) {
	out.Node, out.Rule = q.Get("node"), q.Get("rule")
	instant := func(name string) (at time.Time) {
		text := q.Get(name)
		if text == "" {
			return at
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			bad = append(bad, field.Problem{Field: name, Message: "must be a time such as 2026-11-23T12:00:00Z"})
		}
		return at
	}
	out.From, out.To = instant("from"), instant("to")
	r := rangeOf(q.Get("range"), now)
	bad = append(bad, r.Problems...)
	if out.From.IsZero() {
		out.From = r.From
	}
	var invalid *field.ValidationError
	if err := out.Validate(); len(bad) == 0 && errors.As(err, &invalid) {
		bad = invalid.Fields
	}
	return out, bad
}

// rangeOf is the range of a name.
func rangeOf(name string, now time.Time) view.Range {
	return view.ParseRange(url.Values{"range": {name}}, now, allIncidents)
}

// rangeChoices are the choices of the time filter.
func (m *Incidents) rangeChoices() []view.Choice {
	names := slices.Clone(incidentRanges)
	if now := m.Query.Get("range"); now != "" && len(m.Problems) == 0 && !slices.Contains(names, now) {
		names = append(names, now)
	}
	out := []view.Choice{{"", "Last 30 days"}}
	for _, name := range names {
		r := rangeOf(name, m.Now)
		out = append(out, view.Choice{name, strings.Replace(r.Words(), "the last", "Last", 1)})
	}
	return out
}

// IncidentFeed returns the live parts of the page of incidents.
func (p *Pages) IncidentFeed(v *kit.Visit) kit.Feed {
	var m Incidents
	var read time.Time
	var lasting string
	return func() templ.Component {
		running, err := p.Incidents.Running(v.Ctx)
		var ids []string
		for i := range running {
			ids = append(ids, running[i].ID)
		}
		now := p.Now()
		if now.Sub(read) >= againAfter || strings.Join(ids, " ") != lasting {
			fresh, err := p.incidentsOf(v)
			if err != nil {
				p.Logger.Warn("the console could not read incidents", "error", err)
				return templ.NopComponent
			}
			m, read, lasting = fresh, now, strings.Join(ids, " ")
		}
		m.Now, m.Partial, m.Running = now, err != nil, nil
		for i := range running {
			if len(m.Problems) == 0 && m.Asked.Match(&running[i]) {
				m.Running = append(m.Running, running[i])
			}
		}
		for name, id := range p.ruleIDs(m.Running) {
			m.IDs[name] = id
		}
		return incidentParts(m)
	}
}

// stream is the address of the page's stream.
func (m *Incidents) stream() string { return m.Query.At("/console/events").With("of", "incidents") }

// download is the address of the same incidents as CSV.
func (m *Incidents) download() string { return m.Query.At(pathIncidentsCSV).URL() }

// rulesOf are the rules of an incident that the page lists, and how many more there are.
func (m *Incidents) rulesOf(i *incident.Incident) (shown []incident.Rule, more int) {
	if m.Asked.Rule != "" {
		r, _ := i.Rule(m.Asked.Rule)
		return []incident.Rule{r}, len(i.Rules) - 1
	}
	most := shownRules
	if i.Running() {
		most = shownLive
	}
	shown = i.Rules[:min(len(i.Rules), most)]
	return shown, len(i.Rules) - len(shown)
}

// incidentTitle says what happened.
func incidentTitle(i *incident.Incident) string {
	switch i.Kind {
	case incident.Breaker:
		if strings.Contains(i.Server, ",") {
			return "Circuit breakers tripped"
		}
		return "Circuit breaker tripped"
	case incident.Database:
		return "Rules database unreachable"
	case incident.Regions:
		if strings.Contains(i.Server, ",") {
			return "Regions cut off"
		}
		return "Region cut off"
	case incident.Starved:
		return "Node lacked CPU"
	}
	return "The counter store did not decide some requests"
}

// decidedWords are the decisions of fail modes: "620 by local, 14 by closed".
func decidedWords(r *incident.Rule) string {
	var parts []string
	for _, of := range []struct {
		n    int64
		mode string
	}{{r.Local, rules.FailLocal}, {r.Open, rules.FailOpen}, {r.Closed, rules.FailClosed}} {
		if of.n > 0 {
			parts = append(parts, view.Count(of.n)+" by "+of.mode)
		}
	}
	return strings.Join(parts, ", ")
}

// lasted is how long an incident lasted, or has lasted until now.
func lasted(i *incident.Incident, now time.Time) string {
	end := i.End
	switch {
	case i.Lost:
		end = i.Updated
	case end.IsZero():
		end = now
	}
	return view.Length(end.Sub(i.Begin))
}
