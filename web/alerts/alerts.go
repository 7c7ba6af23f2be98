package alerts

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

const (
	// eventsPerPage is how many past alerts a page has.
	eventsPerPage = 50
	// shownActive is how many active alerts the page lists.
	shownActive = 100
	// scanned is how many events a page looks at for its filters at most, and scanBatch how many it reads at a time.
	scanned   = 5000
	scanBatch = 500
	// againAfter is how long a live page shows past alerts until it reads them again.
	againAfter = 30 * time.Second
)

// Alerts is the page of alerts.
type Alerts struct {
	// Active are the alerts that are on, in the order of the Board, as they were Since; zero means that they were never
	// read.
	Active []alerts.Event
	Since  time.Time
	// Events are what happened, newest first.
	Events []alerts.Event
	Query  view.Query
	// Older is the ID before which the next page starts, 0 if there is none. Newest means that the page starts with the
	// newest event.
	Older  int64
	Newest bool
	// Unavailable means that the rules database could not be read.
	Unavailable bool
	// Rules are the choices of the filter, IDs the rules in force by name.
	Rules []string
	IDs   map[string]int64
	// CanEdit: the page offers to acknowledge and silence.
	CanEdit bool
}

// list shows the active alerts and what happened, filtered by the address.
func (p *Pages) list(v *kit.Visit) error {
	m := p.active(v)
	if err := p.history(v, &m); err != nil {
		return err
	}
	m.Rules = p.RuleNames()
	return v.Page(http.StatusOK, alertsPage(v.Frame("Alerts", kit.PathAlerts), m))
}

// active is the page with the active alerts only.
func (p *Pages) active(v *kit.Visit) Alerts {
	q := v.QueryParams()
	m := Alerts{Query: view.NewQuery(kit.PathAlerts, q, "kind", "rule"), Active: p.Board.Active(), Since: p.Board.Since(),
		CanEdit: v.CanChange(access.RoleEditor)}
	before := v.QueryParam("before")
	m.Newest = before == ""
	m.IDs = p.ruleIDs(m.Active[:min(len(m.Active), shownActive)])
	return m
}

// history adds the events that the address selects. It reads them in batches, because most can be of other rules. A
// page that looked at scanned events ends there, and the next one goes on.
func (p *Pages) history(v *kit.Visit, m *Alerts) error {
	kind, rule := m.Query.Get("kind"), strings.TrimSpace(m.Query.Get("rule"))
	before, _ := strconv.ParseInt(v.QueryParam("before"), 10, 64)
	batch := eventsPerPage + 1
	if kind != "" || rule != "" {
		batch = scanBatch
	}
	m.Events, m.Older = nil, 0
	for seen := 0; ; {
		list, err := p.Events.AlertEvents(v.Ctx, max(before, 0), batch)
		if errors.Is(err, rules.ErrUnavailable) {
			m.Unavailable, v.DatabaseDown = true, true
			return nil
		} else if err != nil {
			return err
		}
		for i := range list {
			e := &list[i]
			if kind != "" && string(e.Kind) != kind || rule != "" && e.Subject.Rule != rule {
				continue
			}
			if len(m.Events) == eventsPerPage {
				m.Older = m.Events[eventsPerPage-1].ID
				break
			}
			m.Events = append(m.Events, *e)
		}
		if seen += len(list); m.Older > 0 || len(list) < batch {
			break
		}
		if before = list[len(list)-1].ID; seen >= scanned {
			m.Older = before
			break
		}
	}
	for name, id := range p.ruleIDs(m.Events) {
		m.IDs[name] = id
	}
	return nil
}

func (p *Pages) ruleIDs(list []alerts.Event) map[string]int64 {
	var names []string
	for i := range list {
		if name := list[i].Subject.Rule; name != "" {
			names = append(names, name)
		}
	}
	return p.IDs(names...)
}

// Feed returns the live parts of the page of alerts. Active ones come from memory. What happened is read again when
// they change, and from time to time.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	var past Alerts
	var read time.Time
	var shown string
	return func() templ.Component {
		m, now := p.active(v), p.Now()
		var uids strings.Builder
		for i := range m.Active {
			uids.WriteString(m.Active[i].UID + " ")
		}
		if now.Sub(read) >= againAfter || uids.String() != shown {
			fresh := p.active(v)
			if err := p.history(v, &fresh); err != nil {
				p.Logger.Warn("the console could not read alerts", "error", err)
				return templ.NopComponent
			}
			past, read, shown = fresh, now, uids.String()
		}
		m.Events, m.Older, m.Unavailable = past.Events, past.Older, past.Unavailable
		for name, id := range past.IDs {
			m.IDs[name] = id
		}
		return alertParts(m)
	}
}

// stream is the address of the page's stream.
func (m *Alerts) stream() string { return m.Query.At("/console/events").With("of", "alerts") }

// older is the address of the next page.
func (m *Alerts) older() string { return m.Query.With("before", view.Digits(m.Older)) }

// kindChoices are the choices of the filter by kind.
func (m *Alerts) kindChoices() []view.Choice {
	out := []view.Choice{{"", "All kinds"}}
	kinds := alerts.Kinds()
	if now := m.Query.Get("kind"); now != "" && !slices.Contains(kinds, now) {
		kinds = append(kinds, now)
	}
	for _, k := range kinds {
		out = append(out, view.Choice{k, kindTitle(k)})
	}
	return out
}

// began is when an active alert began.
func began(e *alerts.Event) time.Time {
	if e.Data.Since != nil {
		return *e.Data.Since
	}
	return e.At
}

// pageOf is the page of the console that shows an alert, "" if there is none.
func pageOf(e *alerts.Event) string {
	if path := kit.Local(e.Data.Path); e.Data.Path != "" && path != kit.PathHome {
		return path
	}
	return ""
}
