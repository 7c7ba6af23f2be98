package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"sluice/rules"
)

// createRule stores a new rule.
func (s *Server) createRule(v *visit) error {
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	d.id, d.version = 0, 0
	r := d.rule()
	if r == nil {
		return s.editor(v, http.StatusUnprocessableEntity, d)
	}
	made, err := s.deps.Writer.CreateRule(v.ctx, v.because(d.form), *r)
	if err != nil {
		return s.notSaved(v, d, err)
	}
	s.changed(v, s.deps.Changed)
	v.flash("The rule %s is made.%s", made.Name, inForce(v, &made))
	return v.redirect(rulePath(made.ID))
}

// updateRule replaces a rule, unless someone else did since the form was loaded.
func (s *Server) updateRule(v *visit) error {
	id, err := ruleID(v)
	if err != nil {
		return err
	}
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	d.id = id
	if d.form.Get("ours") != "" {
		return s.mergeRule(v, d)
	}
	r := d.rule()
	if r == nil {
		return s.editor(v, http.StatusUnprocessableEntity, d)
	}
	return s.store(v, d, r)
}

// store writes a rule over the version that d knows.
func (s *Server) store(v *visit, d *draft, r *rules.Rule) error {
	r.ID = d.id
	if d.version < 1 {
		return s.conflict(v, d, r)
	}
	saved, err := s.deps.Writer.UpdateRule(v.ctx, v.because(d.form), *r, d.version)
	switch {
	case errors.Is(err, rules.ErrStale):
		return s.conflict(v, d, r)
	case err != nil:
		return s.notSaved(v, d, err)
	}
	s.changed(v, s.deps.Changed)
	v.flash("%s is saved.%s", saved.Name, inForce(v, &saved))
	return v.redirect(rulePath(saved.ID))
}

// inForce says what saving meant, after a blank.
func inForce(v *visit, r *rules.Rule) string {
	switch {
	case !r.IsActive:
		return " It is off."
	case r.Mode == rules.ModeShadow:
		return " It counts what it would deny and denies nothing."
	case v.late: // which the flash says
		return ""
	}
	return " It is in force."
}

// notSaved shows the editor again with what was typed and why it was not saved.
func (s *Server) notSaved(v *visit, d *draft, err error) error {
	status := http.StatusUnprocessableEntity
	var invalid *rules.ValidationError
	switch {
	case errors.As(err, &invalid):
		d.errs = placed(d.form, invalid.Fields)
	case errors.Is(err, rules.ErrNameTaken):
		status = http.StatusConflict
		d.errs = []rules.FieldError{{Field: "name", Message: "is the name of another rule"}}
	case errors.Is(err, rules.ErrNotFound):
		status = http.StatusConflict
		d.id, d.version, d.name = 0, 0, ""
		d.problem = "Someone deleted this rule meanwhile. Nothing was saved; saving now makes it anew."
	case errors.Is(err, rules.ErrDiskFull):
		status, d.problem = http.StatusServiceUnavailable, errDiskFull.detail+notSaved
	case errors.Is(err, rules.ErrBusy):
		status, d.problem = http.StatusServiceUnavailable, errChanging.detail+notSaved
	case errors.Is(err, rules.ErrUnavailable):
		status = http.StatusServiceUnavailable
		d.problem = "The rule database does not answer, so nothing was saved. What you typed is still here: save again when it is back. Checks go on with the rules in force."
	default:
		return err
	}
	return s.editor(v, status, d)
}

// fieldsOf are the fields of a *rules.ValidationError, nil for no error.
func fieldsOf(err error) []rules.FieldError {
	var invalid *rules.ValidationError
	if errors.As(err, &invalid) {
		return invalid.Fields
	}
	return nil
}

// trimLine is where in the text an error is, before its message: the place of
// the one rule says nothing.
func trimLine(field string) string {
	if field = strings.TrimPrefix(strings.TrimPrefix(field, "rules[0]"), "."); field == "" || field == "yaml" {
		return ""
	}
	return field + ": "
}

// deleteRule deletes a rule, unless someone changed it meanwhile.
func (s *Server) deleteRule(v *visit) error {
	id, err := ruleID(v)
	if err != nil {
		return err
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(form.Get("version"), 10, 64)
	if err != nil || version < 1 {
		return errStale
	}
	r, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	if err := s.deps.Writer.DeleteRule(v.ctx, v.because(form), id, version); err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("The rule %s is deleted.", r.Name)
	return v.redirect(pathRules)
}
