package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/web/view"
)

// newOverride is the form for another exception; the URL may name the key.
func (s *Server) newOverride(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	form := url.Values{"kind": {"limit"}, "key": {v.QueryParam("key")}}
	return s.overrideForm(v, http.StatusOK, view.OverrideForm{Rule: r, Form: view.NewForm(form, nil)})
}

// editOverride is the form of an exception there is.
func (s *Server) editOverride(v *visit) error {
	r, o, err := s.overrideOf(v)
	if err != nil {
		return err
	}
	form := url.Values{"kind": {"limit"}, "key": {o.Key}, "reason": {o.Reason}, "version": {strconv.FormatInt(o.Version, 10)}}
	if o.Limit != nil {
		form.Set("limit", strconv.FormatInt(*o.Limit, 10))
	}
	if o.Burst != nil {
		form.Set("burst", strconv.FormatInt(*o.Burst, 10))
	}
	if o.Unlimited {
		form.Set("kind", "unlimited")
	}
	if o.Blocked {
		form.Set("kind", "blocked")
	}
	putInstant(form, "expires_at", o.ExpiresAt)
	return s.overrideForm(v, http.StatusOK, view.OverrideForm{Rule: r, ID: o.ID, Form: view.NewForm(form, nil)})
}

func (s *Server) overrideForm(v *visit, status int, m view.OverrideForm) error {
	return v.page(status, view.OverridePage(v.frame("Override of "+m.Rule.Name, pathRules), m))
}

// saveOverride stores what was typed into either form.
func (s *Server) saveOverride(v *visit) error {
	r, err := s.ruleOf(v)
	if err != nil {
		return err
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	m := view.OverrideForm{Rule: r}
	if v.Param("oid") != "" {
		if m.ID, err = v.idOf("oid"); err != nil {
			return err
		}
	}
	o, fields := readOverride(form)
	o.RuleID, o.ID = r.ID, m.ID
	if len(fields) == 0 {
		if m.ID == 0 {
			o, err = s.deps.Live.OverrideWriter.CreateOverride(v.ctx, v.actor(), o, s.setOptions())
		} else {
			o, err = s.deps.Live.OverrideWriter.UpdateOverride(v.ctx, v.actor(), o, version(form), s.setOptions())
		}
	}
	var invalid *rules.ValidationError
	status := http.StatusUnprocessableEntity
	switch {
	case len(fields) > 0:
	case errors.As(err, &invalid):
		fields = invalid.Fields
	case errors.Is(err, rules.ErrOverrideExists):
		fields, status = []rules.FieldError{{Field: "key", Message: "has an override already; edit that one"}}, http.StatusConflict
	case errors.Is(err, rules.ErrStale):
		status = http.StatusConflict
		if m.Theirs, err = s.staleOverride(v, r.ID, m.ID, form); isNotFound(err) {
			m.ID, m.Problem = 0, goneMeanwhile
		} else if err != nil {
			return err
		}
	case errors.Is(err, rules.ErrNotFound) && m.ID != 0:
		m.ID, m.Problem, status = 0, goneMeanwhile, http.StatusConflict
	case errors.Is(err, rules.ErrUnavailable):
		m.Problem, status = problemOf(err).detail+notSaved, http.StatusServiceUnavailable
	case err != nil:
		return err
	default:
		s.changed(v, s.deps.Changed)
		v.flash("Override for %s saved.", o.Key)
		return v.redirect(rulePath(r.ID) + "/overrides")
	}
	m.Form = view.NewForm(form, fields)
	return s.overrideForm(v, status, m)
}

// staleOverride is the override as somebody else made it meanwhile; the form then
// carries its version.
func (s *Server) staleOverride(v *visit, rule, id int64, form url.Values) (*rules.Override, error) {
	theirs, err := s.deps.Live.Overrides.GetOverride(v.ctx, rule, id)
	if err != nil {
		return nil, err
	}
	form.Set("version", strconv.FormatInt(theirs.Version, 10))
	return &theirs, nil
}

// readOverride reads the form.
func readOverride(form url.Values) (rules.Override, []rules.FieldError) {
	o := rules.Override{Key: strings.TrimSpace(form.Get("key")), Reason: strings.TrimSpace(form.Get("reason"))}
	var fields []rules.FieldError
	number := func(field string) *int64 {
		text := strings.ReplaceAll(strings.TrimSpace(form.Get(field)), " ", "")
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			fields = append(fields, rules.FieldError{Field: field, Message: "must be a whole number"})
		}
		return &n
	}
	switch form.Get("kind") {
	case "unlimited":
		o.Unlimited = true
		fields = append(fields, unwanted(form, "limit", "burst")...)
	case "blocked":
		o.Blocked = true
		fields = append(fields, unwanted(form, "limit", "burst")...)
	default:
		if o.Limit, o.Burst = number("limit"), number("burst"); o.Limit == nil {
			fields = append(fields, rules.FieldError{Field: "limit", Message: "is required"})
		}
	}
	rd := &ruleReader{form: form}
	o.ExpiresAt = rd.instant("expires_at", "expires_at.zone")
	return o, append(fields, rd.errs...)
}

// unwanted refuses figures that say nothing beside what was chosen.
func unwanted(form url.Values, names ...string) (fields []rules.FieldError) {
	for _, name := range names {
		if strings.TrimSpace(form.Get(name)) != "" {
			fields = append(fields, rules.FieldError{Field: name, Message: "belongs to another limit; choose that, or leave this empty"})
		}
	}
	return fields
}

// overrideOf is the rule and the override of the path.
func (s *Server) overrideOf(v *visit) (rules.Rule, rules.Override, error) {
	r, err := s.ruleOf(v)
	if err != nil {
		return r, rules.Override{}, err
	}
	id, err := v.idOf("oid")
	if err != nil {
		return r, rules.Override{}, err
	}
	o, err := s.deps.Live.Overrides.GetOverride(v.ctx, r.ID, id)
	return r, o, err
}

// deleteOverride ends an exception.
func (s *Server) deleteOverride(v *visit) error {
	r, o, err := s.overrideOf(v)
	if err != nil {
		return err
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	if err := s.deps.Live.OverrideWriter.DeleteOverride(v.ctx, v.actor(), r.ID, o.ID, version(form)); err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("The override for %s is gone; the rule's own limit counts.", o.Key)
	return v.redirect(rulePath(r.ID) + "/overrides")
}
