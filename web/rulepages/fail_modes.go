package rulepages

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// failModes shows what happens to requests while the counters cannot be asked:
// route by route, with the breakers of every node.
func (p *Pages) failModes(v *kit.Visit) error {
	q := v.QueryParams()
	page := kit.PageNumber(q)
	equal := map[string]string{"fail_mode": kit.OneOf(q.Get("fail_mode"), rules.FieldNamed("fail_mode").OneOf...)}
	list, err := v.Browse(rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: equal, Active: new(true), PageSize: rulesPerPage}, Sort: "route", Offset: (page - 1) * rulesPerPage,
	})
	if err != nil {
		return err
	}
	live := p.Fleet.Live(v.Ctx)
	node := p.Node()
	m := FailModes{
		Query: view.NewQuery(kit.PathFailModes, q, "q", "fail_mode"), Pager: view.Pager{Page: page, Per: rulesPerPage, Total: list.Total},
		Nodes: live.Nodes, Stale: live.Err != nil, Own: live.Own, ReadAt: live.At, Redis: node.Store == "redis",
	}
	for i := range m.Nodes {
		if m.Nodes[i].ID == node.ID { // what was posted may be a second old
			m.Nodes = slices.Clone(m.Nodes)
			m.Nodes[i].Breakers = node.Breakers
		}
	}
	degraded := map[string]int64{}
	for i := range live.Rules {
		for _, ten := range live.Rules[i].Tens {
			degraded[live.Rules[i].Name] += ten.Degraded
		}
	}
	for _, second := range live.Seconds {
		m.Degraded, m.Total = m.Degraded+second.Degraded, m.Total+second.Total()
	}
	for i := range m.Nodes {
		if m.Nodes[i].Unknown {
			continue
		}
		for _, b := range m.Nodes[i].Breakers {
			if at := time.UnixMilli(b.Since); b.Opened > 0 && at.After(m.Switched) {
				m.Switched = at
			}
		}
	}
	for i := range list.Rules {
		r := &list.Rules[i]
		m.Lines = append(m.Lines, FailLine{Rule: r, By: list.Editors[r.ID].Name, Degraded: degraded[r.Name]})
	}
	return v.Page(http.StatusOK, failModesPage(v.Frame("Fail modes", kit.PathFailModes), m))
}

// setFailMode changes what one rule does while the counters cannot be asked,
// unless someone changed the rule since the page was loaded.
func (p *Pages) setFailMode(v *kit.Visit, id int64, form url.Values) error {
	r, err := p.Store.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	mode := kit.OneOf(form.Get("fail_mode"), rules.FailOpen, rules.FailClosed, rules.FailLocal)
	known := kit.Version(form)
	switch {
	case mode == "":
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: "fail_mode", Message: "must be open, closed or local"}}}
	case known < 1:
		return kit.ErrStale
	}
	r.FailMode = mode
	_, err = p.Store.UpdateRule(v.Ctx, v.Because(form), r, known)
	if errors.Is(err, rules.ErrStale) {
		return p.ruleConflict(v, id, form)
	}
	if err != nil {
		return err
	}
	v.Await(p.Changed)
	v.Flash("Fail mode of %q set to %s.", r.Name, mode)
	return v.SeeOther(kit.Local(form.Get("back")))
}

// FailModes is the page of what happens while the counters cannot be asked.
type FailModes struct {
	Lines []FailLine
	Query view.Query
	Pager view.Pager
	// Counts are rules in force, by mode.
	Open, Closed, Local, Active int
	Nodes                       []fleet.NodeLive
	// Degraded were decided by fail modes in the last three minutes, of Total.
	Degraded, Total int64
	// Stale: the figures could not be read again; ReadAt is when they were.
	// Own: those shown are of this node alone.
	Stale, Own bool
	ReadAt     time.Time
	// Redis: there is a counter store that can fail.
	Redis bool
	// Switched is when a breaker changed last, zero for never.
	Switched time.Time
}

// where limits a figure to this node, if it is of this node alone.
func (m *FailModes) where() string {
	if m.Own {
		return ", on this node"
	}
	return ""
}

// FailLine is one rule on that page.
type FailLine struct {
	Rule *rules.Rule
	By   string
	// Degraded were decided by its fail mode in the last ten minutes.
	Degraded int64
}
