package rulepage

import (
	"context"

	"sluice/internal/audit"
	"sluice/web/kit"
	"sluice/web/view"
)

// AuditLog has the changes of overrides.
type AuditLog interface {
	ListAudit(ctx context.Context, q audit.Query) ([]audit.Entry, error)
}

// recentChanges is how many of the newest audit entries of a rule are searched for changes of its overrides.
const recentChanges = 50

// overrideLog are the newest changes of the overrides of a rule, newest first.
func (p *Pages) overrideLog(v *kit.Visit, rule int64) ([]audit.Entry, error) {
	list, err := p.Audit.ListAudit(v.Ctx, audit.Query{SubjectKind: "rule", SubjectID: rule, Limit: recentChanges})
	if err != nil {
		return nil, err
	}
	var out []audit.Entry
	for i := range list {
		if list[i].OfOverride() {
			out = append(out, list[i])
		}
	}
	return out, nil
}

// auditLink leads to all changes of the rule.
func (m *Page) auditLink() string {
	return view.NewQuery(kit.PathAudit, nil).Set("kind", "rule", "subject", m.Rule.Name).URL()
}

// overrideDone describes a change of overrides, as in "Override of user:42 edited".
func overrideDone(e *audit.Entry) string {
	switch e.Action {
	case "override_create":
		return "created"
	case "override_update":
		return "edited"
	case "override_delete":
		return "deleted"
	}
	return "imported"
}
