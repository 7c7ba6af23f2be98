package web

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice/rules"
	"sluice/web/view"
)

// failModes shows what happens to requests while the counters cannot be asked:
// route by route, with the breakers of every node.
func (s *Server) failModes(v *visit) error {
	q := v.QueryParams()
	page := pageNumber(q)
	equal := map[string]string{"fail_mode": oneOf(q.Get("fail_mode"), rules.FieldNamed("fail_mode").OneOf...)}
	list, err := s.browse(v, rules.Browse{
		Query: rules.Query{Text: q.Get("q"), Equal: equal, Active: new(true), PageSize: rulesPerPage}, Sort: "route", Offset: (page - 1) * rulesPerPage,
	})
	if err != nil {
		return err
	}
	live := s.deps.Fleet.Live(v.ctx)
	node := s.deps.Node()
	m := view.FailModes{
		Query: view.NewQuery(pathFailModes, q, "q", "fail_mode"), Pager: view.Pager{Page: page, Per: rulesPerPage, Total: list.Total},
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
		for _, p := range live.Rules[i].Tens {
			degraded[live.Rules[i].Name] += p.Degraded
		}
	}
	for _, p := range live.Seconds {
		m.Degraded, m.Total = m.Degraded+p.Degraded, m.Total+p.Total()
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
		m.Lines = append(m.Lines, view.FailLine{Rule: r, By: list.Editors[r.ID].Name, Degraded: degraded[r.Name]})
	}
	return v.page(http.StatusOK, view.FailModesPage(v.frame("Fail modes", pathFailModes), m))
}

// setFailMode changes what one rule does while the counters cannot be asked,
// unless someone changed the rule since the page was loaded.
func (s *Server) setFailMode(v *visit) error {
	id, form, err := v.ruleForm()
	if err != nil {
		return err
	}
	r, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	mode := oneOf(form.Get("fail_mode"), rules.FailOpen, rules.FailClosed, rules.FailLocal)
	known := version(form)
	switch {
	case mode == "":
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: "fail_mode", Message: "must be open, closed or local"}}}
	case known < 1:
		return errStale
	}
	r.FailMode = mode
	_, err = s.deps.Writer.UpdateRule(v.ctx, v.because(form), r, known)
	if errors.Is(err, rules.ErrStale) {
		return s.ruleConflict(v, id, form)
	}
	if err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("%s fails %s now.", r.Name, mode)
	return v.redirect(local(form.Get("back")))
}
