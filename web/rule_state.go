package web

import (
	"errors"
	"net/url"

	"sluice/rules"
	"sluice/web/view"
)

// switchRule turns a rule on or off, or between enforce and shadow. Its counters
// stay.
func (s *Server) switchRule(v *visit) error {
	id, form, err := v.ruleForm()
	if err != nil {
		return err
	}
	r, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	done := ""
	switch form.Get("to") {
	case "on":
		r.IsActive, done = true, "is on"
	case "off":
		r.IsActive, done = false, "is off: it limits nothing until it is turned on again"
	case rules.ModeShadow:
		r.Mode, done = rules.ModeShadow, "is a shadow rule now: it counts and denies nothing"
	case rules.ModeEnforce:
		r.Mode, done = rules.ModeEnforce, "is enforced"
	default:
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: "to", Message: "must be on, off, shadow or enforce"}}}
	}
	_, err = s.deps.Writer.UpdateRule(v.ctx, v.because(form), r, version(form))
	return s.afterChange(v, id, form, err, "%s %s.", r.Name, done)
}

// promoteRule puts what is on trial in force.
func (s *Server) promoteRule(v *visit) error {
	id, form, err := v.ruleForm()
	if err != nil {
		return err
	}
	r, err := s.deps.Live.Turns.PromoteRule(v.ctx, v.because(form), id, version(form))
	return s.afterChange(v, id, form, err, "%s is in force: %s.", r.Name, view.LimitWords(&r))
}

// ruleForm reads the rule's id and the posted form.
func (v *visit) ruleForm() (int64, url.Values, error) {
	id, err := v.ruleID()
	if err != nil {
		return 0, nil, err
	}
	form, err := v.form()
	return id, form, err
}

// afterChange ends an act on a rule: with its page and a word about what was
// done, or with what somebody else changed meanwhile.
func (s *Server) afterChange(v *visit, id int64, form url.Values, err error, done string, args ...any) error {
	if errors.Is(err, rules.ErrStale) {
		return s.ruleConflict(v, id, form)
	}
	if err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash(done, args...)
	return v.redirect(rulePath(id))
}
