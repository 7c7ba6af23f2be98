package inspect

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// denialsPerPage is how many denials a page has.
const denialsPerPage = 100

// denialSpans are the options of the time filter.
var denialSpans = map[string]time.Duration{"1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute,
	"1h": time.Hour, "24h": 24 * time.Hour}

// listDenials shows sampled denials, filtered by the URL.
func (p *Pages) listDenials(v *kit.Visit) error {
	m, err := p.denialsOf(v)
	if kit.Unreadable(err) {
		return p.countersUnavailable(err)
	}
	m.Rules = p.RuleNames()
	return v.Page(http.StatusOK, denialsPage(v.Frame("Denials", kit.PathDenials), m))
}

// denialsOf returns the denials that the URL selects.
func (p *Pages) denialsOf(v *kit.Visit) (Denials, error) {
	q := v.QueryParams()
	now := p.Now()
	f := fleet.Filter{Rule: q.Get("rule"), Key: q.Get("key"), Route: q.Get("route"),
		Mode: kit.OneOf(q.Get("mode"), rules.ModeEnforce, rules.ModeShadow, "candidate")}
	if span := denialSpans[q.Get("since")]; span > 0 {
		f.From = now.Add(-span)
	}
	if to, err := strconv.ParseInt(q.Get("to"), 10, 64); err == nil && to > 0 {
		f.To = time.UnixMilli(to)
	}
	found, err := p.Denials.Denials(v.Ctx, f, denialsPerPage+1)
	m := Denials{
		Lines: found[:min(len(found), denialsPerPage)],
		Query: view.NewQuery(kit.PathDenials, q, "key", "route", "rule", "mode", "since", "to"), Now: now,
	}
	m.IDs = p.RuleIDs(m.Lines)
	var own *fleet.OwnError
	if m.Own = errors.As(err, &own); m.Own {
		m.Since = own.Since
	}
	if len(found) > denialsPerPage {
		m.Older = m.Query.With("to", strconv.FormatInt(found[denialsPerPage].At+1, 10))
	}
	return m, err
}

// countersUnavailable is the error page while the counter store is unreachable.
func (p *Pages) countersUnavailable(err error) error {
	p.Logger.Warn("the console could not read the counters", "error", err)
	return &kit.Problem{
		Status: http.StatusServiceUnavailable, Title: "Redis is unreachable",
		Detail: "Denials and remaining quota are stored in Redis, which is unreachable right now. Nothing was changed. " +
			"Try again later.",
	}
}

// inForce finds a rule in force by its name, nil if there is none.
func (p *Pages) inForce(name string) *rules.Compiled {
	set := p.Sets.Load()
	if set == nil {
		return nil
	}
	for i := range set.Len() {
		if set.At(i).Rule.Name == name {
			return set.At(i)
		}
	}
	return nil
}

// Denials is the page of recent denials.
type Denials struct {
	Lines []fleet.Request
	Query view.Query
	// Older is the address of the denials before the last line, "" if there are none.
	Older string
	// Rules are the names to choose from.
	Rules []string
	// IDs maps names of rules in force to their IDs.
	IDs map[string]int64
	// Now is the time of the page.
	Now time.Time
	// Own means that these are denials of this node only, because those of others cannot be read since Since.
	Own   bool
	Since time.Time
}

// Stream is the address of the page's stream.
func (m *Denials) Stream() string {
	return m.Query.At("/console/events").With("of", "denials")
}

// sortedNames are the keys of a map, in order.
func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fromWords describes who sent a denied request.
func fromWords(d *fleet.Request) string {
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
	return strings.Join(parts, ", ")
}

func statusWords(status int) string { return strconv.Itoa(status) }

// waitWords is Wait as part of a sentence: "in 12 s", "never".
func waitWords(ms int64) string {
	if ms > 0 {
		return "in " + Wait(ms)
	}
	return Wait(ms)
}
