package web

import (
	"net/http"
	"strconv"

	"sluice/rules"
	"sluice/web/view"
)

// overridesPerPage is how many rows a page of overrides has.
const overridesPerPage = 50

// listOverrides shows the exceptions from a rule, searched and paged by what the
// URL says.
func (s *Server) listOverrides(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	after, _ := strconv.ParseInt(v.QueryParam("after"), 10, 64)
	p, err := s.deps.Live.Overrides.ListOverrides(v.ctx, rules.OverrideQuery{
		RuleID: r.ID, Text: v.QueryParam("q"), IncludeExpired: v.QueryParam("ended") == "1", PageSize: overridesPerPage, AfterID: max(0, after),
	})
	if err != nil {
		return err
	}
	m := view.OverrideTable{
		Rule: r, Overrides: p.Overrides, More: p.More, First: after <= 0, Now: s.deps.Now(),
		Query: view.NewQuery(rulePath(r.ID)+"/overrides", v.QueryParams(), "q", "ended"),
	}
	return v.page(http.StatusOK, view.OverridesPage(v.frame("Overrides of "+r.Name, pathRules), m))
}

// ruleOf is the rule of the path.
func (s *Server) ruleOf(v *visit) (rules.Rule, error) {
	id, err := v.ruleID()
	if err != nil {
		return rules.Rule{}, err
	}
	return s.deps.Writer.GetRule(v.ctx, id)
}

// setOptions are the settings by which addresses are counted here.
func (s *Server) setOptions() rules.Options {
	if set := s.setNow(); set != nil {
		return set.Options()
	}
	return rules.Options{}
}
