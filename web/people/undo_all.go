package people

import (
	"net/http"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// undoSample is how many rules the confirmation page shows.
const undoSample = 10

// askUndoAll shows what undoing a bulk edit would do now.
func (p *Pages) askUndoAll(v *kit.Visit) error {
	e, err := p.bulkEntry(v)
	if err != nil {
		return err
	}
	v.AllowBulkTime()
	plan, err := p.Rules.PlanUndo(v.Ctx, e.SubjectID, undoSample)
	if err != nil {
		return err
	}
	m := UndoAll{Entry: e, Plan: plan}
	return v.Page(http.StatusOK, undoAllPage(v.Frame("Undo a bulk edit", kit.PathAudit), m))
}

// undoAll undoes a bulk edit. It skips rules that were changed since.
func (p *Pages) undoAll(v *kit.Visit) error {
	e, err := p.bulkEntry(v)
	if err != nil {
		return err
	}
	actor := v.Actor()
	actor.Undoes = e.ID
	done, err := p.undoBulk(v, actor, e.SubjectID)
	if err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.Flash("%s", done)
	return v.SeeOther(kit.PathAudit)
}

// bulkEntry is the audit entry of the path, which is about a bulk edit.
func (p *Pages) bulkEntry(v *kit.Visit) (audit.Entry, error) {
	id, err := v.ID("id")
	if err != nil {
		return audit.Entry{}, err
	}
	list, err := p.Audit.ListAudit(v.Ctx, audit.Query{SubjectKind: audit.SubjectBulk, BeforeID: id + 1, Limit: 1})
	if err != nil {
		return audit.Entry{}, err
	}
	if len(list) == 0 || list[0].ID != id {
		return audit.Entry{}, kit.ErrMissing
	}
	return list[0], nil
}

// UndoAll is the page that asks for confirmation before someone undoes a bulk edit.
type UndoAll struct {
	Entry audit.Entry
	Plan  rules.UndoPlan
}

// about says what would be undone.
func (m *UndoAll) about() string {
	return "The edit of " + view.Plural(m.Entry.Bulk().Rules, "rule") + " by " + m.Entry.Actor.Name + "."
}

// same says how many rules would not change because they are as before already.
func (m *UndoAll) same() string {
	if m.Plan.Same == 1 {
		return "1 rule is already as it was before the edit."
	}
	return view.Plural(m.Plan.Same, "rule") + " are already as they were before the edit."
}
