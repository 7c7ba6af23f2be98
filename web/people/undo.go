package people

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// recentEntries is how many of the newest entries about a rule are searched for the change to undo.
const recentEntries = 50

var (
	errUndoForm = &kit.Problem{Status: http.StatusBadRequest, Title: "Invalid form",
		Detail: "The form does not name a change. Nothing was changed."}
	errUndoOver = &kit.Problem{Status: http.StatusPreconditionFailed, Title: "This can no longer be undone",
		Detail: "Undo works for 30 seconds after a change, for the person who made it. Nothing was changed. The audit log " +
			"has the change with its previous values. The history of a rule offers to roll back."}
	errUndoStale = &kit.Problem{Status: http.StatusPreconditionFailed, Title: "Changed in the meantime",
		Detail: "This was changed or undone after your change, so nothing was undone. The audit log says who changed it."}
)

// undo reverts a change on behalf of the person who has just made it.
func (p *Pages) undo(v *kit.Visit, form url.Values) error {
	u, ok := kit.ReadUndo(form.Get("to"))
	if !ok {
		return errUndoForm
	}
	e, err := p.recentEntry(v, u)
	if err != nil {
		return err
	}
	actor := v.Actor()
	actor.Undoes = e.ID
	done := ""
	switch u.Kind {
	case kit.UndoRule:
		done, err = p.undoRule(v, actor, u)
	case kit.UndoOverride:
		done, err = p.undoOverride(v, actor, &e)
	default:
		done, err = p.undoBulk(v, actor, e.SubjectID)
	}
	if errors.Is(err, rules.ErrStale) || errors.Is(err, rules.ErrNotFound) || errors.Is(err, rules.ErrOverrideExists) {
		return errUndoStale
	}
	if err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.Flash("%s", done)
	return v.SeeOther(kit.Local(form.Get("back")))
}

// recentEntry is the audit entry of a change that the visitor made so recently that they can undo it.
func (p *Pages) recentEntry(v *kit.Visit, u kit.Undo) (audit.Entry, error) {
	q := audit.Query{SubjectKind: "rule", SubjectID: u.Rule, Actor: v.User.Name, Since: p.Now().Add(-kit.UndoFor),
		Limit: recentEntries}
	if u.Kind == kit.UndoBulk {
		q.SubjectKind, q.SubjectID = audit.SubjectBulk, u.ID
	}
	list, err := p.Audit.ListAudit(v.Ctx, q)
	if err != nil {
		return audit.Entry{}, err
	}
	for i := range list {
		if e := &list[i]; e.Actor == v.Actor() && isOf(e, u) {
			return *e, nil
		}
	}
	return audit.Entry{}, errUndoOver
}

// isOf reports whether an entry records a change.
func isOf(e *audit.Entry, u kit.Undo) bool {
	switch u.Kind {
	case kit.UndoRule:
		return e.SubjectKind == "rule" && !e.OfOverride() && u.Version > 1 && e.Version() == u.Version
	case kit.UndoOverride:
		o := e.Override()
		if o.Is == nil {
			return o.Was != nil && o.Was.ID == u.ID && u.Version == 0
		}
		return o.Is.ID == u.ID && o.Is.Version == u.Version
	}
	return true
}

// undoRule restores the version of a rule before a change, unless the rule was changed since.
func (p *Pages) undoRule(v *kit.Visit, actor rules.Actor, u kit.Undo) (done string, err error) {
	r, err := p.Rules.RollbackRule(v.Ctx, actor, u.Rule, u.Version-1, u.Version)
	return "Undone. Rule " + r.Name + " is as it was before.", err
}

// undoOverride restores an override as it was before a change, unless it was changed since.
func (p *Pages) undoOverride(v *kit.Visit, actor rules.Actor, e *audit.Entry) (done string, err error) {
	switch o := e.Override(); {
	case o.Was == nil:
		err = p.Overrides.DeleteOverride(v.Ctx, actor, e.SubjectID, o.Is.ID, o.Is.Version)
	case o.Is == nil:
		_, err = p.Overrides.CreateOverride(v.Ctx, actor, *o.Was, p.Options())
	default:
		_, err = p.Overrides.UpdateOverride(v.Ctx, actor, *o.Was, o.Is.Version, p.Options())
	}
	return "Undone. The override for " + e.Key() + " is as it was before.", err
}

// undoBulk restores the rules of a bulk edit. It skips rules that were changed since.
func (p *Pages) undoBulk(v *kit.Visit, actor rules.Actor, bulk int64) (done string, err error) {
	v.AllowBulkTime()
	out, err := p.Rules.UndoBulk(v.Ctx, actor, bulk)
	if err == nil && out.Changed == 0 {
		err = &kit.Problem{Status: http.StatusPreconditionFailed, Title: "Nothing is left to undo",
			Detail: "Nothing was changed. " + undoneWords(&out)}
	}
	return undoneWords(&out), err
}

// undoneWords say what the undoing of a bulk edit did.
func undoneWords(out *rules.BulkResult) string {
	var s []string
	switch out.Changed {
	case 0:
	case 1:
		s = append(s, "1 rule is as it was before.")
	default:
		s = append(s, view.Plural(out.Changed, "rule")+" are as they were before.")
	}
	switch out.Same {
	case 0:
	case 1:
		s = append(s, "1 rule already was.")
	default:
		s = append(s, view.Plural(out.Same, "rule")+" already were.")
	}
	if skipped := kit.SkippedWords(out.Skipped); skipped != "" {
		s = append(s, skipped)
	}
	return strings.Join(s, " ")
}
