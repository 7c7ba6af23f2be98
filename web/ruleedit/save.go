package ruleedit

import (
	"errors"
	"net/http"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// createRule stores a new rule.
func (p *Pages) createRule(v *kit.Visit) error {
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	d.id, d.version = 0, 0
	r := d.rule()
	if r == nil {
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	p.FailDefaults.Fill(r)
	made, err := p.Rules.CreateRule(v.Ctx, v.ActorWithReason(d.form), *r)
	if err != nil {
		return p.notSaved(v, d, err)
	}
	v.WaitInForce(p.Changed)
	v.Flash("Rule %q created.%s", made.Name, inForce(v, &made))
	return v.SeeOther(view.RulePath(made.ID))
}

// updateRule saves a rule, unless someone else changed it after the form was loaded.
func (p *Pages) updateRule(v *kit.Visit) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	d.id = id
	if d.form.Get("ours") != "" {
		return p.mergeRule(v, d)
	}
	r := d.rule()
	if r == nil {
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	return p.store(v, d, r)
}

// store writes a rule over the version that d knows.
func (p *Pages) store(v *kit.Visit, d *draft, r *rules.Rule) error {
	r.ID = d.id
	p.FailDefaults.Fill(r)
	if d.version < 1 {
		return p.conflict(v, d, r)
	}
	saved, err := p.Rules.UpdateRule(v.Ctx, v.ActorWithReason(d.form), *r, d.version)
	switch {
	case errors.Is(err, rules.ErrStale):
		return p.conflict(v, d, r)
	case err != nil:
		return p.notSaved(v, d, err)
	}
	v.WaitInForce(p.Changed)
	v.Flash("Rule %q saved.%s", saved.Name, inForce(v, &saved))
	return v.SeeOther(view.RulePath(saved.ID))
}

// inForce is the effect of saving, after a blank.
func inForce(v *kit.Visit, r *rules.Rule) string {
	switch {
	case !r.IsActive:
		return " It is disabled."
	case r.Mode == rules.ModeShadow:
		return " It is in shadow mode: it counts but does not deny."
	case v.NotYetInForce: // the flash says so
		return ""
	}
	return " It is in force."
}

// notSaved shows the editor again with the form and the error.
func (p *Pages) notSaved(v *kit.Visit, d *draft, err error) error {
	status := http.StatusUnprocessableEntity
	switch {
	case kit.FieldsOf(err) != nil:
		if errors.As(err, new(*rules.TakenError)) {
			status = http.StatusConflict
		}
		d.errs = toFormNames(d.form, kit.FieldsOf(err))
	case errors.Is(err, rules.ErrNameTaken):
		status = http.StatusConflict
		d.errs = []field.Problem{{Field: "name", Message: "is already used by another rule"}}
	case errors.Is(err, rules.ErrNotFound):
		status = http.StatusConflict
		d.id, d.version, d.name = 0, 0, ""
		d.problem = "Someone deleted this rule in the meantime. Nothing was saved. Saving now creates it again."
	case errors.Is(err, rules.ErrUnavailable):
		status, d.problem = http.StatusServiceUnavailable, kit.NotSaved(err)
	default:
		return err
	}
	return p.editor(v, status, d)
}

// trimLine is the field of an error in YAML, without the position of the only rule.
func trimLine(field string) string {
	if field = strings.TrimPrefix(strings.TrimPrefix(field, "rules[0]"), "."); field == "" || field == "yaml" {
		return ""
	}
	return field + ": "
}
