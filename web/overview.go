package web

import (
	"net/http"

	"sluice/rules"
	"sluice/web/view"
)

// overview is the home page: what is in force and how this node is.
func (s *Server) overview(v *visit) error {
	status := s.deps.Status()
	m := view.Overview{
		Source: status.Source, Confirmed: status.Confirmed, Shared: status.Shared, Embedded: status.Embedded,
		Nodes: status.Nodes, Keys: status.Keys, Degraded: status.Degraded(), Version: status.Version,
	}
	for _, b := range status.Breakers {
		m.Breakers = append(m.Breakers, view.Breaker{Node: b.Node, State: b.State, Opened: b.Opened})
	}
	if set := s.deps.Sets.Load(); set != nil {
		m.SetVersion, m.Active = set.Version(), set.Len()
		for i := range set.Len() {
			c := set.At(i)
			if c.Shadow {
				m.Shadow++
			}
			switch c.FailMode {
			case rules.FailClosed:
				m.FailClosed++
			case rules.FailLocal:
				m.FailLocal++
			default:
				m.FailOpen++
			}
		}
	}
	recent, err := s.deps.Rules.BrowseRules(v.ctx, rules.Browse{Query: rules.Query{PageSize: 5}, Sort: "updated_at", Desc: true})
	if err != nil {
		return err
	}
	m.Stored, m.Recent = recent.Total, ruleLines(&recent)
	return v.page(http.StatusOK, view.OverviewPage(v.frame("Overview", pathHome), m))
}

// ruleLines are the rows of a table of rules.
func ruleLines(list *rules.Listing) []view.RuleLine {
	lines := make([]view.RuleLine, len(list.Rules))
	for i := range list.Rules {
		r := &list.Rules[i]
		lines[i] = view.RuleLine{Rule: r, By: list.Editors[r.ID].Name}
	}
	return lines
}
