package web

import (
	"net/http"
	"net/url"

	"sluice/rules"
	"sluice/web/view"
)

// ruleConflict shows what somebody else changed in a rule since the page was
// loaded on which an act was asked for, and offers the act again. Nothing has
// been done.
func (s *Server) ruleConflict(v *visit, id int64, form url.Values) error {
	now, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	m := view.RuleConflict{Rule: now, Action: v.Request().URL.Path, Form: url.Values{}}
	for name, values := range form {
		m.Form[name] = values
	}
	m.Form.Del("version")
	past, err := s.deps.History.RuleHistory(v.ctx, id, 1, 0)
	if err != nil {
		return err
	}
	if len(past) > 0 {
		m.By, m.At = past[0].Actor.Name, past[0].At
	}
	if seen := version(form); seen > 0 {
		if then, err := s.revision(v, id, seen); err == nil {
			m.Changes = rules.Diff(&then.Rule, &now)
		}
	}
	return v.page(http.StatusConflict, view.RuleConflictPage(v.frame("Changed meanwhile", pathRules), m))
}

// revision finds one version of a rule.
func (s *Server) revision(v *visit, id, version int64) (rules.Revision, error) {
	past, err := s.deps.History.RuleHistory(v.ctx, id, 1, version+1)
	if err != nil {
		return rules.Revision{}, err
	}
	if len(past) == 0 || past[0].Version != version {
		return rules.Revision{}, rules.ErrNotFound
	}
	return past[0], nil
}
