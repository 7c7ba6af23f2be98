package transfer

import (
	"errors"
	"net/http"

	"sluice/rules"
	"sluice/web/kit"
)

// doAll applies a plan with its deletions; otherwise deletions are left out.
const doAll = "all"

// applyImport applies exactly the plan that was shown. If the rules have changed since, it shows the new plan and
// changes nothing.
func (p *Pages) applyImport(v *kit.Visit) error {
	f, err := p.importFile(v)
	if err != nil {
		return p.importErrors(v, f, err)
	}
	defer f.done()
	in, err := p.planOf(v, f)
	if err != nil {
		return p.importErrors(v, f, err)
	}
	if in.sum != f.Form.Get("sum") {
		return p.showPlan(v, http.StatusConflict, in,
			"The rules changed after the plan was shown, so nothing was changed. This is the current plan.")
	}
	todo := in.plan
	if f.Form.Get("do") != doAll {
		todo.Delete, todo.Pools.Delete, todo.Profiles.Delete = nil, nil, nil
	}
	var named *rules.NamedError
	err = p.Store.ApplyPlan(v.Ctx, v.ActorWithReason(f.Form), todo)
	switch {
	case errors.Is(err, rules.ErrStale), errors.Is(err, rules.ErrNameTaken):
		if in, err = p.planOf(v, f); err != nil {
			return p.importErrors(v, f, err)
		}
		return p.showPlan(v, http.StatusConflict, in,
			"Someone else changed the rules at the same time, so nothing was changed. This is the current plan.")
	case errors.As(err, &named):
		return p.showPlan(v, http.StatusConflict, in, "Nothing was changed: "+named.Error()+", which the plan deletes.")
	case errors.Is(err, rules.ErrPoolUsed):
		return p.showPlan(v, http.StatusConflict, in, "Nothing was changed: a rule still uses a pool that the plan deletes.")
	case err != nil:
		return p.importErrors(v, f, err)
	}
	p.uploads.drop(p.Now(), v.User.ID)
	v.WaitInForce(p.Changed)
	v.Flash("Imported: %s.", planWords(&todo))
	return v.SeeOther(kit.PathRules)
}
