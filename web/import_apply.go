package web

import (
	"errors"
	"net/http"

	"sluice/rules"
	"sluice/web/view"
)

// applyImport carries out the plan that was shown, exactly that one: if the rules
// have changed since, the new plan is shown instead and nothing is done.
func (s *Server) applyImport(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	text, prune := form.Get("text"), form.Get("prune") == "on"
	in, err := s.planOf(v, text, prune)
	if err != nil {
		return s.importErrors(v, text, prune, err)
	}
	in.reason = form.Get("reason")
	if in.sum != form.Get("sum") {
		return s.showPlan(v, http.StatusConflict, in, "The rules have changed since the plan was shown, so nothing was done. This is the plan now.")
	}
	err = s.deps.Admin.Transfer.ApplyPlan(v.ctx, v.because(form), in.plan)
	switch {
	case errors.Is(err, rules.ErrStale), errors.Is(err, rules.ErrNameTaken):
		if in, err = s.planOf(v, text, prune); err != nil {
			return s.importErrors(v, text, prune, err)
		}
		in.reason = form.Get("reason")
		return s.showPlan(v, http.StatusConflict, in, "A colleague changed the rules at the same moment, so nothing was done. This is the plan now.")
	case errors.Is(err, rules.ErrPoolUsed):
		return s.showPlan(v, http.StatusConflict, in, "Nothing was done: a pool that the plan deletes is still used by a rule.")
	case err != nil:
		return s.importErrors(v, text, prune, err)
	}
	s.deps.Admin.Changed()
	v.flash("Imported: %s.", view.PlanWords(&in.plan))
	return v.redirect(pathRules)
}
