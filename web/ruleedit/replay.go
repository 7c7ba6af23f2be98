package ruleedit

import (
	"errors"
	"net/http"

	"sluice/web/kit"
)

// startReplay tries the rule in the editor on recorded traffic. Nothing is saved.
func (p *Pages) startReplay(v *kit.Visit) error {
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	r := d.rule()
	if r == nil {
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	p.FailDefaults.Fill(r)
	r.ID = d.id
	address, err := p.Replay.Start(v, r, d.form)
	var refused *kit.Problem
	switch {
	case err == nil:
		return v.SeeOther(address)
	case kit.FieldsOf(err) != nil:
		d.errs = toFormNames(d.form, kit.FieldsOf(err))
		return p.editor(v, http.StatusUnprocessableEntity, d)
	case errors.As(err, &refused) && refused != kit.ErrUnavailable: // which has a page of its own
		d.problem = refused.Detail
		return p.editor(v, refused.Status, d)
	}
	return err
}
