package rulepages

import (
	"net/http"
	"net/url"
	"time"

	"sluice/rules"
	"sluice/web/kit"
)

// ruleConflict shows what someone else changed in a rule after the page was loaded, and offers the action again.
// Nothing was changed.
func (p *Pages) ruleConflict(v *kit.Visit, id int64, form url.Values) error {
	now, err := p.Store.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	m := RuleConflict{Rule: now, Action: v.Request().URL.Path, Form: url.Values{}}
	for name, values := range form {
		m.Form[name] = values
	}
	m.Form.Del("version")
	past, err := p.Store.RuleHistory(v.Ctx, id, 1, 0)
	if err != nil {
		return err
	}
	if len(past) > 0 {
		m.By, m.At = past[0].Actor.Name, past[0].At
	}
	if seen := kit.Version(form); seen > 0 {
		if then, err := p.revision(v, id, seen); err == nil {
			m.Changes = rules.Diff(&then.Rule, &now)
		}
	}
	return v.Page(http.StatusConflict, ruleConflictPage(v.Frame("Changed in the meantime", kit.PathRules), m))
}

// revision returns a version of a rule.
func (p *Pages) revision(v *kit.Visit, id, version int64) (rules.Revision, error) {
	past, err := p.Store.RuleHistory(v.Ctx, id, 1, version+1)
	if err != nil {
		return rules.Revision{}, err
	}
	if len(past) == 0 || past[0].Version != version {
		return rules.Revision{}, rules.ErrNotFound
	}
	return past[0], nil
}

// RuleConflict is an action on a rule that someone else changed in the meantime.
type RuleConflict struct {
	Rule rules.Rule
	By   string
	At   time.Time
	// Changes are the changes since the page was loaded.
	Changes []rules.Change
	// Action and Form are the requested action.
	Action string
	Form   url.Values
}
