// Package rulepage shows one rule: what it does, its history and its overrides. It changes the state of the rule.
package rulepage

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/kit"
)

// Trials counts what rules on trial would have decided otherwise.
type Trials interface {
	// Trial adds up the counts of a trial over several versions of a rule.
	Trial(ctx context.Context, rule int64, versions []int64) (history.TrialCounts, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Trials Trials
	Audit  AuditLog
	// Watching means that this node detects hot keys.
	Watching bool
}

const pathOverrides = kit.PathRule + "/overrides"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathRule, Role: viewer, Handle: p.show},
		{Method: http.MethodPost, Path: kit.PathRule + "/delete", Role: editor,
			Reauth: kit.DoesToRule("delete the rule ", ""), Handle: kit.OnRule(p.deleteRule)},
		{Method: http.MethodGet, Path: kit.PathRule + "/turn", Role: editor, Form: true,
			Handle: kit.WithRule(p.confirmAction)},
		{Method: http.MethodPost, Path: kit.PathRule + "/state", Role: editor, Handle: kit.OnRule(p.switchRule)},
		{Method: http.MethodPost, Path: kit.PathRule + "/promote", Role: editor, Handle: kit.OnRule(p.promoteRule)},
		{Method: http.MethodGet, Path: kit.PathRule + "/rollback", Role: editor, Form: true,
			Handle: kit.WithRule(p.rollbackForm)},
		{Method: http.MethodPost, Path: kit.PathRule + "/rollback", Role: editor, Handle: kit.OnRule(p.rollbackRule)},

		{Method: http.MethodGet, Path: kit.PathOverrides, Role: viewer, Handle: p.listAllOverrides},
		{Method: http.MethodGet, Path: pathOverrides, Role: viewer, Handle: kit.WithRule(p.listOverrides)},
		{Method: http.MethodPost, Path: pathOverrides, Role: editor, Handle: kit.WithRule(p.saveOverride)},
		{Method: http.MethodGet, Path: pathOverrides + "/new", Role: editor, Form: true,
			Handle: kit.WithRule(p.newOverride)},
		{Method: http.MethodGet, Path: pathOverrides + "/:oid/edit", Role: editor, Form: true, Handle: p.editOverride},
		{Method: http.MethodPost, Path: pathOverrides + "/:oid", Role: editor, Handle: kit.WithRule(p.saveOverride)},
		{Method: http.MethodPost, Path: pathOverrides + "/:oid/delete", Role: editor, Reauth: p.deletesOverride,
			Handle: kit.Posted(p.deleteOverride)},
	}
}
