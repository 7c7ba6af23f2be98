package web

import (
	"errors"
	"net/http"

	"sluice/rules"
	"sluice/web/view"
)

// importForm is the form for many overrides at once.
func (s *Server) importForm(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	return v.page(http.StatusOK, view.OverrideImportPage(v.frame("Import overrides of "+r.Name, pathRules), view.OverrideImport{Rule: r}))
}

// importOverrides says what a file of overrides would do, or does it.
func (s *Server) importOverrides(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	m := view.OverrideImport{Rule: r}
	apply := form.Get("do") == "apply"
	items, err := rules.ParseOverrides([]byte(form.Get("csv")))
	if err == nil {
		var done rules.OverrideImported
		done, err = s.deps.Live.OverrideWriter.ImportOverrides(v.ctx, v.actor(), rules.OverrideImport{
			RuleID: r.ID, Items: items, Prune: form.Get("prune") == "on", DryRun: !apply,
		}, s.setOptions())
		m.Plan = &done
	}
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &invalid):
		m.Plan, m.Errors, m.Form = nil, invalid.Fields, view.NewForm(form, nil)
		return v.page(http.StatusUnprocessableEntity, view.OverrideImportPage(v.frame("Import overrides of "+r.Name, pathRules), m))
	case errors.Is(err, rules.ErrUnavailable):
		m.Plan, m.Problem, m.Form = nil, problemOf(err).detail+notSaved, view.NewForm(form, nil)
		return v.page(http.StatusServiceUnavailable, view.OverrideImportPage(v.frame("Import overrides of "+r.Name, pathRules), m))
	case err != nil:
		return err
	case !apply:
		m.Form = view.NewForm(form, nil)
		return v.page(http.StatusOK, view.OverrideImportPage(v.frame("Import overrides of "+r.Name, pathRules), m))
	}
	s.deps.Changed()
	v.flash("Imported: %d new, %d changed, %d deleted, %d as they were.", m.Plan.Created, m.Plan.Updated, m.Plan.Deleted, m.Plan.Unchanged)
	return v.redirect(rulePath(r.ID) + "/overrides")
}
