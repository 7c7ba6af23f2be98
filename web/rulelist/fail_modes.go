package rulelist

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// failModes shows what happens to requests while the counter store is unreachable, by route, with the circuit
// breakers of every node.
func (p *Pages) failModes(v *kit.Visit) error {
	q := v.QueryParams()
	page := kit.PageNumber(q)
	equal := map[string]string{"fail_mode": kit.OneOf(q.Get("fail_mode"), rules.FieldNamed("fail_mode").OneOf...)}
	list, err := v.Browse(rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: equal, Active: new(true), PageSize: perPage}, Sort: "route",
		Offset: (page - 1) * perPage,
	})
	if err != nil {
		return err
	}
	live := p.Fleet.Live(v.Ctx)
	node := p.Node()
	m := FailModes{
		Query: view.NewQuery(kit.PathFailModes, q, "q", "fail_mode"),
		Pager: view.Pager{Page: page, Per: perPage, Total: list.Total},
		Nodes: live.Nodes, Stale: live.Err != nil, Own: live.Own, ReadAt: live.At, Redis: node.Store == "redis",
	}
	for i := range m.Nodes {
		if m.Nodes[i].ID == node.ID { // the reported state may be a second old
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
		m.Seconds.Add(second.Figures)
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

// setFailMode changes the fail mode of a rule, unless someone changed the rule after the page was loaded.
func (p *Pages) setFailMode(v *kit.Visit, id int64, form url.Values) error {
	r, err := p.Rules.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	mode := kit.OneOf(form.Get("fail_mode"), rules.FailOpen, rules.FailClosed, rules.FailLocal)
	known := kit.Version(form)
	switch {
	case mode == "":
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "fail_mode", Message: "must be open, closed or local"}}}
	case known < 1:
		return kit.ErrStale
	}
	r.FailMode = mode
	_, err = p.Rules.UpdateRule(v.Ctx, v.ActorWithReason(form), r, known)
	return v.AfterChange(id, form, err, kit.Local(form.Get("back")), "Fail mode of %q set to %s.", r.Name, mode)
}

// FailModes is the page of fail modes.
type FailModes struct {
	Lines []FailLine
	Query view.Query
	Pager view.Pager
	// Open, Closed, Local and Active count rules in force.
	Open, Closed, Local, Active int
	Nodes                       []history.NodeLive
	// Seconds are the decisions of the last three minutes.
	Seconds history.Figures
	// Stale means that the metrics could not be read again, Own that they are of this node only. ReadAt is when they were
	// read.
	Stale, Own bool
	ReadAt     time.Time
	// Redis means that the counters are in Redis, which can become unreachable.
	Redis bool
	// Switched is the last change of a circuit breaker, zero for never.
	Switched time.Time
}

// where is added to a number that is of this node only.
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
	// Degraded counts decisions of its fail mode in the last ten minutes.
	Degraded int64
}
