package web

import (
	"errors"
	"net/http"

	"sluice/rules"
	"sluice/web/view"
)

// doAll applies a plan with its deletions; without it only the rest is done.
const doAll = "all"

// applyImport carries out the plan that was shown, exactly that one: if the rules
// have changed since, the new plan is shown instead and nothing is done.
func (s *Server) applyImport(v *visit) error {
	f, err := s.importFile(v, "text")
	if err != nil {
		return s.importErrors(v, f, err)
	}
	defer f.done()
	in, err := s.planOf(v, f)
	if err != nil {
		return s.importErrors(v, f, err)
	}
	if in.sum != f.form.Get("sum") {
		return s.showPlan(v, http.StatusConflict, in, "The rules have changed since the plan was shown, so nothing was done. This is the plan now.")
	}
	todo := in.plan
	if f.form.Get("do") != doAll {
		todo.Delete, todo.Pools.Delete = nil, nil
	}
	err = s.deps.Admin.Transfer.ApplyPlan(v.ctx, v.because(f.form), todo)
	switch {
	case errors.Is(err, rules.ErrStale), errors.Is(err, rules.ErrNameTaken):
		if in, err = s.planOf(v, f); err != nil {
			return s.importErrors(v, f, err)
		}
		return s.showPlan(v, http.StatusConflict, in, "A colleague changed the rules at the same moment, so nothing was done. This is the plan now.")
	case errors.Is(err, rules.ErrPoolUsed):
		return s.showPlan(v, http.StatusConflict, in, "Nothing was done: a pool that the plan deletes is still used by a rule.")
	case err != nil:
		return s.importErrors(v, f, err)
	}
	s.uploads.drop(v.user.ID)
	s.changed(v, s.deps.Changed)
	v.flash("Imported: %s.", view.PlanWords(&todo))
	return v.redirect(pathRules)
}
