package rulepage

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// switchRule enables or disables a rule, or switches it between enforce and shadow. Its counters are kept.
func (p *Pages) switchRule(v *kit.Visit, id int64, form url.Values) error {
	r, err := p.Rules.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	done := ""
	switch form.Get("to") {
	case "on":
		r.IsActive, done = true, "enabled"
	case "off":
		r.IsActive, done = false, "disabled"
	case rules.ModeShadow:
		r.Mode, done = rules.ModeShadow, "switched to shadow mode: it counts but does not deny"
	case rules.ModeEnforce:
		r.Mode, done = rules.ModeEnforce, "enforced"
	default:
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "to", Message: "must be on, off, shadow or enforce"}}}
	}
	known := kit.Version(form)
	saved, err := p.Rules.UpdateRule(v.Ctx, v.ActorWithReason(form), r, known)
	offerUndo(v, &saved, known)
	return v.AfterChange(id, form, err, view.RulePath(id), "Rule %q %s.", r.Name, done)
}

// offerUndo offers to undo a change of a rule. known is the version that the page showed. Nothing is offered after a
// change that failed or made no difference.
func offerUndo(v *kit.Visit, saved *rules.Rule, known int64) {
	if saved.Version > known {
		v.OfferUndo(kit.UndoOfRule(saved))
	}
}

// promoteRule enforces a shadow rule, or makes a candidate the rule's limit. With too little evidence, it asks once
// more.
func (p *Pages) promoteRule(v *kit.Visit, id int64, form url.Values) error {
	if asked, err := p.askAgain(v, id, form); asked || err != nil {
		return err
	}
	known := kit.Version(form)
	r, err := p.Rules.PromoteRule(v.Ctx, v.ActorWithReason(form), id, known)
	offerUndo(v, &r, known)
	return v.AfterChange(id, form, err, view.RulePath(id), "Rule %q promoted: %s.", r.Name, view.LimitWords(&r))
}

// deleteRule deletes a rule, unless someone changed it after the page was loaded.
func (p *Pages) deleteRule(v *kit.Visit, id int64, form url.Values) error {
	version := kit.Version(form)
	if version < 1 {
		return kit.ErrStale
	}
	r, err := p.Rules.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	if err := p.Rules.DeleteRule(v.Ctx, v.ActorWithReason(form), id, version); err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.Flash("Rule %q deleted.", r.Name)
	return v.SeeOther(kit.PathRules)
}

// rollbackForm shows what a rollback to an earlier version would change.
func (p *Pages) rollbackForm(v *kit.Visit, now rules.Rule) error {
	to, err := strconv.ParseInt(v.QueryParam("to"), 10, 64)
	if err != nil || to < 1 || to >= now.Version {
		return v.SeeOther(view.RulePath(now.ID))
	}
	then, err := v.Revision(now.ID, to)
	if err != nil {
		return err
	}
	m := Rollback{Rule: now, To: then, Changes: rules.Diff(&now, &then.Rule)}
	return v.Page(http.StatusOK, rollbackPage(v.Frame("Roll back "+now.Name, kit.PathRules), m))
}

// rollbackRule makes an earlier version the current one, as a new version.
func (p *Pages) rollbackRule(v *kit.Visit, id int64, form url.Values) error {
	to, err := strconv.ParseInt(form.Get("to"), 10, 64)
	if err != nil || to < 1 {
		return &field.ValidationError{Fields: []field.Problem{{Field: "to", Message: "must be a version"}}}
	}
	r, err := p.Rules.RollbackRule(v.Ctx, v.ActorWithReason(form), id, to, kit.Version(form))
	return v.AfterChange(id, form, err, view.RulePath(id), "Rule %q rolled back to version %s.", r.Name, view.Digits(to))
}

// Rollback is an earlier version to go back to.
type Rollback struct {
	Rule    rules.Rule
	To      rules.Revision
	Changes []field.Change
}

// counterWords says whether a rollback keeps the counters. The name of a bucket contains what it counts and how, and
// buckets of all regions differ from buckets of one region.
func (m *Rollback) counterWords() string {
	for _, c := range m.Changes {
		switch c.Field {
		case "scope", "descriptor", "span":
			return "Counters may begin anew, because the " + c.Field + " changes."
		}
	}
	return keptWords(&m.Rule, &m.To.Rule)
}

// countersKept says that an edit keeps the counters.
const countersKept = "Counters are kept."

// keptWords says whether an edit of the limit keeps the counters.
func keptWords(was, is *rules.Rule) string {
	for _, w := range rules.EditWarnings(was, is) {
		return w.Message
	}
	return countersKept
}

// lead introduces the page of a rollback. A separate notice warns of lost counters.
func (m *Rollback) lead() string {
	kept := ""
	if m.counterWords() == countersKept {
		kept = countersKept + " "
	}
	return fmt.Sprintf("From version %s back to version %s. %sBoth versions stay in history.",
		view.Digits(m.Rule.Version), view.Digits(m.To.Version), kept)
}
