package web

import (
	"net/http"
	"strconv"

	"sluice/rules"
	"sluice/web/view"
)

// rollbackForm shows what going back to an earlier version would change.
func (s *Server) rollbackForm(v *visit) error {
	id, err := v.ruleID()
	if err != nil {
		return err
	}
	now, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(v.QueryParam("to"), 10, 64)
	if err != nil || to < 1 || to >= now.Version {
		return v.redirect(rulePath(id))
	}
	then, err := s.revision(v, id, to)
	if err != nil {
		return err
	}
	m := view.Rollback{Rule: now, To: then, Changes: rules.Diff(&now, &then.Rule)}
	return v.page(http.StatusOK, view.RollbackPage(v.frame("Roll back "+now.Name, pathRules), m))
}

// rollbackRule makes an earlier version the present one, as a new version.
func (s *Server) rollbackRule(v *visit) error {
	id, form, err := v.ruleForm()
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(form.Get("to"), 10, 64)
	if err != nil || to < 1 {
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: "to", Message: "must be a version"}}}
	}
	r, err := s.deps.Live.Turns.RollbackRule(v.ctx, v.because(form), id, to, version(form))
	return s.afterChange(v, id, form, err, "%s is again as it was in version %d.", r.Name, to)
}
