package inspect

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// samplesPerPage is how many requests a page has.
const samplesPerPage = 100

// sampleSpans are the options of the time filter.
var sampleSpans = map[string]time.Duration{"1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute,
	"1h": time.Hour, "24h": 24 * time.Hour}

// sampleFilters are the parameters of the address that select requests.
var sampleFilters = []string{"key", "route", "rule", "outcome", "node", "tenant", "since", "from", "to", "before"}

// outcomes are the options of the outcome filter. Trials deny nothing: their limits would deny.
func outcomes(all bool) []view.Choice {
	list := []view.Choice{{"", "All denials"}, {history.Denied, "Denied"}, {history.Degraded, "Fail mode"},
		{rules.ModeShadow, "Shadow"}, {candidate, "Candidate"}}
	if all {
		list[0] = view.Choice{"", "All outcomes"}
		list = slices.Insert(list, 1, view.Choice{history.Allowed, "Allowed"})
	}
	return list
}

// candidate is the mode of a sample whose limit is a candidate.
const candidate = "candidate"

// listSamples shows the page of sampled requests, allowed ones too, or the page of denials.
func (p *Pages) listSamples(v *kit.Visit) error {
	m, err := p.samplesOf(v, v.Path() == kit.PathRequests)
	if kit.Unreadable(err) {
		return p.countersUnavailable(err)
	}
	m.Rules = p.RuleNames()
	status := http.StatusOK
	if len(m.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	return v.Page(status, samplesPage(v.Frame(m.Title(), kit.PathRequests), m))
}

// samplesOf returns the samples that the address selects. Without all, allowed requests are left out.
func (p *Pages) samplesOf(v *kit.Visit, all bool) (Samples, error) {
	q := v.QueryParams()
	m := Samples{All: all, Now: p.Now(), Choices: outcomes(all), Nodes: p.nodeChoices(v.Ctx)}
	path := kit.PathDenials
	if all {
		path = kit.PathRequests
	}
	m.Query = view.NewQuery(path, q, sampleFilters...)
	f := m.filter()
	f.Attribute = p.TenantAttribute
	read := p.Denials.Denials
	if all {
		read = p.Denials.Requests
	}
	found, err := read(v.Ctx, f, samplesPerPage+1)
	m.Lines = found[:min(len(found), samplesPerPage)]
	m.IDs = p.RuleIDs(m.Lines)
	var own *history.OwnError
	if m.Own = errors.As(err, &own); m.Own {
		m.Since = own.Since
	}
	if len(found) > samplesPerPage {
		m.Older = m.Query.With("before", view.Digits(found[samplesPerPage].At+1))
	}
	return m, err
}

// filter returns the filter in the address, without the name of the attribute of a tenant. It sets From and To, and
// notes problems.
func (m *Samples) filter() history.Filter {
	q := m.Query
	f := history.Filter{Rule: q.Get("rule"), Key: q.Get("key"), Route: q.Get("route"), Node: q.Get("node"),
		Value: q.Get("tenant")}
	switch outcome := q.Get("outcome"); {
	case !slices.ContainsFunc(m.Choices, func(c view.Choice) bool { return c.Value() == outcome }) &&
		outcome != history.WouldDeny:
		m.wrong("outcome", "does not exist")
	case outcome == rules.ModeShadow || outcome == candidate:
		f.Mode, f.Outcome = outcome, history.WouldDeny
	default:
		f.Outcome = outcome
	}
	if span := sampleSpans[q.Get("since")]; span > 0 {
		f.From = m.Now.Add(-span)
		m.Query = q.Set("from", "", "to", "")
	} else {
		m.From, m.To = m.moment("from"), m.moment("to")
		if f.From, f.To = m.From, m.To; !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
			m.wrong("to", "must be after the start")
		}
	}
	if ms, err := strconv.ParseInt(q.Get("before"), 10, 64); err == nil && ms > 0 {
		if before := time.UnixMilli(ms); f.To.IsZero() || before.Before(f.To) {
			f.To = before
		}
	}
	return f
}

// moment returns a time in the address, zero if there is none. A time without a zone is in UTC.
func (m *Samples) moment(name string) time.Time {
	text := m.Query.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, err := view.ParseMoment(text, time.UTC)
	if err != nil {
		m.wrong(name, err.Error())
	}
	return at
}

func (m *Samples) wrong(member, message string) {
	m.Problems = append(m.Problems, field.Problem{Field: member, Message: message})
}

// nodeChoices are the nodes to choose from, nil if there is only one.
func (p *Pages) nodeChoices(ctx context.Context) []view.Choice {
	live := p.Fleet.Live(ctx)
	if len(live.Nodes) < 2 {
		return nil
	}
	list := []view.Choice{{"", "All nodes"}}
	for i := range live.Nodes {
		list = append(list, view.Choice{live.Nodes[i].ID, live.Nodes[i].Address})
	}
	return list
}

// countersUnavailable is the error page while the counter store is unreachable.
func (p *Pages) countersUnavailable(err error) error {
	p.Logger.Warn("the console could not read the counters", "error", err)
	if limiter.CauseOf(err) == limiter.CauseHome {
		return &kit.Problem{
			Status: http.StatusServiceUnavailable, Title: "The home region does not answer",
			Detail: "The counters of this key are at home in another region, which does not answer or cannot decide. Nothing " +
				"was changed. Try again later; the page Regions says more.",
		}
	}
	return &kit.Problem{
		Status: http.StatusServiceUnavailable, Title: "Redis is unreachable",
		Detail: "Denials and remaining quota are stored in Redis, which is unreachable right now. Nothing was changed. " +
			"Try again later.",
	}
}

// Samples is the page of sampled requests.
type Samples struct {
	Lines []history.Request
	// All means that the page is about allowed requests too.
	All   bool
	Query view.Query
	// From and To bound the times of the requests, zero if there is no such bound.
	From, To time.Time
	// Problems are the invalid parts of the address. The page applies the valid parts.
	Problems []field.Problem
	// Older is the address of the requests before the last line, "" if there are none.
	Older string
	// Rules are the names to choose from; Choices are the outcomes, and Nodes the nodes.
	Rules          []string
	Choices, Nodes []view.Choice
	// IDs maps names of rules in force to their IDs.
	IDs map[string]int64
	// Now is the time of the page.
	Now time.Time
	// Own means that Lines contains only requests of this node, because requests of other nodes cannot be read since
	// Since.
	Own   bool
	Since time.Time
}

// sampledWords say which requests are on the page.
func sampledWords(all bool) string {
	if all {
		return "A sample for looking at moments: up to 20/s per node, denials first, the last 8,000 allowed and 2,000 denied."
	}
	return "Sampled denials (up to 20/s per node, last 2,000), including shadow rules."
}

// Title is the name of the page.
func (m *Samples) Title() string {
	if m.All {
		return "Requests"
	}
	return "Denials"
}

// noun is the name for a line.
func (m *Samples) noun() string {
	if m.All {
		return "request"
	}
	return "denial"
}

// noneWords say that the filters find nothing.
func (m *Samples) noneWords() string {
	return "No stored " + m.noun() + " matches these filters. Few requests of a second are stored, and not for long."
}

// Stream is the address of the page's stream.
func (m *Samples) Stream() string {
	return m.Query.At("/console/events").With("of", m.noun()+"s")
}

// past means that new requests do not belong on the page.
func (m *Samples) past() bool {
	return m.Query.Get("before") != "" || !m.To.IsZero()
}

// sortedNames are the keys of a map, in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fromWords describes who sent a request, and which other rules counted it.
func fromWords(d *history.Request) string {
	var parts []string
	for _, p := range []struct{ name, value, key string }{{"user ", d.User, "user:"}, {"from ", d.IP, "ip:"},
		{"host ", d.Host, "host:"}, {"tier ", d.Tier, "tier:"}} {
		if p.value != "" && d.Key != p.key+p.value { // the key is in the row already
			parts = append(parts, p.name+p.value)
		}
	}
	for _, name := range sortedNames(d.Attributes) {
		parts = append(parts, name+" "+d.Attributes[name])
	}
	if len(d.Also) > 0 {
		parts = append(parts, "also counted by "+strings.Join(d.Also, ", "))
	}
	return chars.Shown(strings.Join(parts, ", "))
}

func statusWords(status int) string { return view.Digits(status) }

// waitWords is Wait as part of a sentence: "in 12 s", "never".
func waitWords(ms int64) string {
	if ms > 0 {
		return "in " + Wait(ms)
	}
	return Wait(ms)
}
