package ruleedit

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// shownClients is the largest number of clients in the chart. The estimate is about all that are known.
const shownClients = 12

// The values of the field for the time of the clients.
const (
	clientsField = "clients.range"
	clientsHour  = "1h"
	clientsDay   = "24h"
)

// Clients are the busiest clients of a rule against its limit.
type Clients struct {
	// Absent says why there is no chart, "" if there is one.
	Absent string
	// List are the clients, the busiest first. Axis is the axis of their rates.
	List []Client
	Axis view.Values
	// Limit and Window, in ms, are the typed limit. Span is the time of the figures.
	Limit, Window int64
	Span          time.Duration
	// Requests is the number of requests of these clients. The rule denied Denied of them, and the limit would have denied
	// about Would.
	Requests, Denied int64
	Would            float64
	// Doubts say what the estimate leaves out.
	Doubts []string
}

// Client is a client of a rule.
type Client struct {
	Key string
	// Rate are the requests per window of the limit in its busiest hour, or in its busiest window if that is longer.
	Rate float64
	// Would is how many of its requests a limit would have denied.
	Would float64
}

// parts are the requests of a client in equal parts of a time, history.LineUnknown for unknown ones. The last part ends
// at until.
type parts struct {
	line        []int64
	from, until time.Time
	length      time.Duration
}

// against compares the requests with a limit per window. The requests of a part count as spread evenly over it, so
// would is the least that a limit with windows would have denied. rate is the largest number of requests per window.
// Parts shorter than the window are added up to at least a window. unknown means that some parts are unknown.
func (p parts) against(limit int64, window time.Duration) (rate, would float64, unknown bool) {
	size := max(1, int((window+p.length-1)/p.length))
	for first := 0; first < len(p.line); first += size {
		n, long := int64(0), time.Duration(0)
		for i := first; i < min(first+size, len(p.line)); i++ {
			if p.line[i] == history.LineUnknown {
				unknown = true
				continue
			}
			start := p.from.Add(time.Duration(i) * p.length)
			n += p.line[i]
			long += max(0, min(p.length, p.until.Sub(start)))
		}
		windows := max(1, float64(long)/float64(window))
		rate = max(rate, float64(n)/windows)
		would += max(0, float64(n)-float64(limit)*windows)
	}
	return rate, would, unknown
}

// clients compares the limit of a draft with the busiest clients of the stored rule.
func (p *Pages) clients(v *kit.Visit, d *draft) *Clients {
	m := &Clients{Span: 24 * time.Hour}
	if d.form.Get(clientsField) == clientsHour {
		m.Span = time.Hour
	}
	r, errs := ruleOf(d.form)
	var was *rules.Rule
	if live := p.Sets.Load(); live != nil && live.Get(d.id) != nil {
		was = &live.Get(d.id).Rule
	}
	l, spare, err := previewLimit(&r, p.Now())
	switch m.Absent = unfit(d.id, was, &r); {
	case m.Absent != "":
		return m
	case err != nil || slices.ContainsFunc(errs, ofLimit):
		m.Absent = "Enter a limit and a window to compare them with the traffic."
		return m
	}
	m.Limit, m.Window = l.Count, l.Window
	now := p.Now().UTC()
	res, err := p.Stats.Stats(v.Ctx, history.Query{Rule: was.Name, By: history.ByKey, From: now.Add(-m.Span), To: now,
		Step: time.Hour})
	if err != nil {
		m.Absent = "The figures of the rule could not be read. Try again in a moment."
		return m
	}
	m.count(&res, now, l.Count+spare)
	if len(m.List) == 0 {
		m.Absent = "No requests of this rule are known in " + m.spanWords() + "."
		return m
	}
	m.scale(was)
	m.doubt(&res, &r, spare > 0, l.Burst > l.Count)
	return m
}

// ofLimit reports whether an error is about the limit or its window.
func ofLimit(e field.Problem) bool { return e.Field == "limit" || e.Field == "window_ms" }

// unfit says why the figures of a rule say nothing about a draft, "" if they do.
func unfit(id int64, was, r *rules.Rule) string {
	switch {
	case id == 0:
		return "A new rule has no traffic yet. Once it counts requests, its busiest clients are shown here."
	case was == nil:
		return "The rule is not in force, so it counts no requests."
	case r.Unlimited:
		return "The rule denies nothing."
	case !reflect.DeepEqual(countedBy(was), countedBy(r)):
		return "You changed which requests the rule counts, or by what. The figures of the saved rule do not fit the " +
			"edited one: use Try on recent traffic."
	case r.WeightField != nil || r.ChargeOn == rules.ChargeOnReport:
		return "The rule counts units, and the figures count requests. Use Try on recent traffic."
	case r.Algorithm == "concurrency":
		return "The rule limits requests in progress, and the figures count requests over time."
	}
	return ""
}

// countedBy returns the fields that select the requests of a rule and their keys.
func countedBy(r *rules.Rule) []any {
	return []any{r.Scope, r.Route, r.Method, r.Host, r.When, r.Descriptor}
}

// count fills in the clients and the estimate for a limit.
func (m *Clients) count(res *history.Result, now time.Time, limit int64) {
	some, most := false, int64(0)
	for i := range res.Top {
		row := &res.Top[i]
		p := parts{line: row.Line, from: res.TopFrom, until: now, length: res.LineStep}
		rate, would, unknown := p.against(limit, time.Duration(m.Window)*time.Millisecond)
		if rate == 0 {
			continue
		}
		some = some || unknown
		most = max(most, row.Error)
		m.List = append(m.List, Client{Key: row.Key, Rate: rate, Would: would})
		m.Requests += row.Allowed + row.Denied
		m.Denied += row.Denied
		m.Would += would
	}
	slices.SortStableFunc(m.List, func(a, b Client) int { return cmp.Compare(b.Rate, a.Rate) })
	if some {
		m.Doubts = append(m.Doubts, "In some hours, some of these clients were not among the busiest ones: their requests "+
			"in those hours are not known.")
	}
	if most > 0 {
		m.Doubts = append(m.Doubts, "The count of a client may be wrong by up to "+view.Count(most)+".")
	}
}

// scale chooses an axis that does not depend on the typed limit, so that the bars stay while the line moves.
func (m *Clients) scale(was *rules.Rule) {
	busiest := m.List[0].Rate
	m.Axis = view.ValuesTo(1.1 * max(1, busiest, min(float64(was.Limit), 3*busiest)))
}

// doubt adds sentences about requests and settings that the estimate leaves out.
func (m *Clients) doubt(res *history.Result, r *rules.Rule, spare, burst bool) {
	say := func(is bool, text string) {
		if is {
			m.Doubts = append(m.Doubts, text)
		}
	}
	say(res.TopRest > 0, "Each other client had at most "+view.Plural(res.TopRest, "request")+".")
	say(time.Duration(m.Window)*time.Millisecond > m.Span, "The window of the limit is longer than this time: what "+
		"clients sent before is left out.")
	say(spare, "What the throttle allows over the limit counts as allowed.")
	say(burst, "The burst is left out.")
	say(len(r.Tiers) > 0 || r.Schedule != nil, "Limits of tiers and of the schedule are left out.")
	say(true, "Overrides of single clients are left out.")
	if res.Partial != nil {
		m.Doubts = append(m.Doubts, view.MissingWords(res.Partial))
	}
}

func (m *Clients) spanWords() string {
	if m.Span == time.Hour {
		return "the last hour"
	}
	return "the last 24 hours"
}

// limitWords is the limit: "100 per minute".
func (m *Clients) limitWords() string { return view.Count(m.Limit) + " per " + view.Window(m.Window) }

// verdict is the estimate in a sentence.
func (m *Clients) verdict() string {
	over := int64(0)
	for i := range m.List {
		if m.List[i].Would >= .5 {
			over++
		}
	}
	clients := view.Plural(int64(len(m.List)), "client")
	s := m.limitWords() + " would have denied "
	if over == 0 {
		return s + "none of about " + view.Count(m.Requests) + " requests of " + clients + "."
	}
	return s + "about " + view.About(m.Would) + " of " + view.Count(m.Requests) + " requests of " + view.Count(over) +
		" of " + clients + "."
}

// saved says what the saved rule denied.
func (m *Clients) saved() string {
	return "The rule as it was denied " + view.Count(m.Denied) + "."
}

// doubts says how the estimate was made.
func (m *Clients) doubts() string {
	drawn := "Bars are requests per " + view.Window(m.Window) + " in the busiest hour of a client."
	if time.Duration(m.Window)*time.Millisecond > time.Hour {
		drawn = "Bars are requests per " + view.Window(m.Window) + " when a client was busiest."
	}
	if n := len(m.List) - shownClients; n > 0 {
		drawn += " " + view.Plural(int64(n), "less busy client") + " have no bar."
	}
	how := "An estimate from " + m.spanWords() + ", by whole hours. The requests of a client in an hour count as spread " +
		"evenly: bursts can be denied more."
	return strings.Join(append([]string{drawn, how}, m.Doubts...), " ")
}

// place is where a rate is on the axis, in parts of a thousand.
func (m *Clients) place(rate float64) float64 { return math.Min(1000, 1000*rate/m.Axis.Top()) }

// at is place as an attribute of SVG.
func (m *Clients) at(rate float64) string { return view.Tenths(m.place(rate)) }

// percent is place in percent.
func (m *Clients) percent(rate float64) string { return view.Share(m.place(rate), 1000) }

// overWidth is the width of the part of a bar that is over the limit.
func (m *Clients) overWidth(rate float64) string {
	return view.Tenths(max(0, m.place(rate)-m.place(float64(m.Limit))))
}

// label describes the bar of a client.
func (m *Clients) label(c *Client) string {
	return chars.Shown(c.Key) + ": " + view.About(c.Rate) + " per " + view.Window(m.Window)
}
