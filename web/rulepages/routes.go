// Package rulepages shows and edits rules, their overrides, pools, and fail modes. It is not called rules, because its
// files import the package of that name.
package rulepages

import (
	"context"
	"net/http"
	"net/url"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/kit"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	// Store stores rules, Figures returns metrics of rules.
	Store   Store
	Figures Figures
	// Headers returns the response headers that the editor shows.
	Headers HeadersOf
	// Pools stores pools. PoolState returns the state of one, without charging anything.
	Pools     rules.Store[rules.Pool]
	PoolState func(ctx context.Context, p *rules.CompiledPool) PoolState
	// Watching means that this node detects hot keys.
	Watching bool
	// Replays reads the decision log.
	Replays *backtest.Jobs
}

// Store stores rules. ifVersion is the version that the page showed, 0 for any.
// Errors wrap rules.ErrNotFound, ErrNameTaken, ErrStale or ErrUnavailable, or are a
// *rules.ValidationError.
type Store interface {
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
	CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error)
	UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error)
	DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
	// EditRules edits many rules. It skips those that have changed since they were seen.
	EditRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion,
		edit func(*rules.Rule)) (rules.BulkResult, error)
	// DeleteRules deletes many rules. It skips those that have changed since they were seen.
	DeleteRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion) (rules.BulkResult, error)
	// RuleHistory returns the versions of a rule before a version (0 for all), newest first.
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
	// RollbackRule makes an earlier version of a rule the current one. PromoteRule enforces its candidate or, for a
	// shadow rule, the rule itself.
	RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error)
	PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error)
}

// Figures returns metrics of single rules.
type Figures interface {
	// Trial adds up the counts of a trial over several versions of a rule.
	Trial(ctx context.Context, rule int64, versions []int64) (fleet.TrialCounts, error)
}

// HeadersOf returns the response headers for a decision of a limit, at a time in ms since the epoch.
type HeadersOf func(rule string, l limiter.Limit, d limiter.Decision, at int64) []Header

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

// pathRule is the page of a rule.
const pathRule = kit.PathRules + "/:id"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return append(kit.ObjectRoutes(kit.PathPools, editor, p.editPools), []kit.Route{
		{Method: http.MethodGet, Path: kit.PathRules, Role: viewer, Handle: p.listRules},
		{Method: http.MethodGet, Path: kit.PathRules + "/new", Role: editor, Form: true, Handle: p.newRule},
		{Method: http.MethodPost, Path: kit.PathRules, Role: editor, Handle: p.createRule},
		{Method: http.MethodPost, Path: kit.PathRules + "/preview", Role: editor, Offline: true, Handle: p.previewRule},
		{Method: http.MethodPost, Path: kit.PathRules + "/bulk", Role: editor, Handle: kit.Posted(p.bulkRules)},

		{Method: http.MethodPost, Path: pathReplay, Role: editor, Offline: true, Handle: p.startReplay},
		{Method: http.MethodGet, Path: pathReplay, Role: editor, Handle: p.replayPage},
		{Method: http.MethodPost, Path: pathReplay + "/cancel", Role: editor, Offline: true,
			Handle: kit.Posted(p.cancelReplay)},
		{Method: http.MethodGet, Path: pathRule + "/suggest", Role: editor, Handle: p.withRule(p.suggestPage)},
		{Method: http.MethodPost, Path: pathRule + "/suggest", Role: editor, Offline: true,
			Handle: p.withRule(p.startSuggest)},
		{Method: http.MethodPost, Path: pathRule + "/candidate", Role: editor, Handle: onRule(p.makeCandidate)},

		{Method: http.MethodPost, Path: kit.PathRules + "/delete", Role: editor, Reauth: true,
			Handle: kit.Posted(p.deleteRules)},

		{Method: http.MethodGet, Path: pathRule, Role: viewer, Handle: p.rulePage},
		{Method: http.MethodPost, Path: pathRule, Role: editor, Handle: p.updateRule},
		{Method: http.MethodGet, Path: pathRule + "/edit", Role: editor, Form: true, Handle: p.withRule(p.editRule)},
		{Method: http.MethodPost, Path: pathRule + "/delete", Role: editor, Reauth: true, Handle: p.deleteRule},
		{Method: http.MethodGet, Path: pathRule + "/turn", Role: editor, Form: true, Handle: p.withRule(p.confirmAction)},
		{Method: http.MethodPost, Path: pathRule + "/state", Role: editor, Handle: onRule(p.switchRule)},
		{Method: http.MethodPost, Path: pathRule + "/promote", Role: editor, Handle: onRule(p.promoteRule)},
		{Method: http.MethodGet, Path: pathRule + "/rollback", Role: editor, Form: true,
			Handle: p.withRule(p.rollbackForm)},
		{Method: http.MethodPost, Path: pathRule + "/rollback", Role: editor, Handle: onRule(p.rollbackRule)},

		{Method: http.MethodGet, Path: pathRule + "/overrides", Role: viewer, Handle: p.withRule(p.listOverrides)},
		{Method: http.MethodPost, Path: pathRule + "/overrides", Role: editor, Handle: p.withRule(p.saveOverride)},
		{Method: http.MethodGet, Path: pathRule + "/overrides/new", Role: editor, Form: true,
			Handle: p.withRule(p.newOverride)},
		{Method: http.MethodGet, Path: pathRule + "/overrides/:oid/edit", Role: editor, Form: true,
			Handle: p.editOverride},
		{Method: http.MethodPost, Path: pathRule + "/overrides/:oid", Role: editor, Handle: p.withRule(p.saveOverride)},
		{Method: http.MethodPost, Path: pathRule + "/overrides/:oid/delete", Role: editor, Reauth: true,
			Handle: p.deleteOverride},

		{Method: http.MethodGet, Path: kit.PathPools, Role: viewer, Handle: p.listPools},
		{Method: http.MethodGet, Path: kit.PathFailModes, Role: viewer, Handle: p.failModes},
		{Method: http.MethodPost, Path: kit.PathFailModes + "/:id", Role: editor, Handle: onRule(p.setFailMode)},
	}...)
}

// ruleOf is the rule of the path.
func (p *Pages) ruleOf(v *kit.Visit) (rules.Rule, error) {
	id, err := v.ID("id")
	if err != nil {
		return rules.Rule{}, err
	}
	return p.Store.GetRule(v.Ctx, id)
}

// withRule wraps an action that needs the rule in the path.
func (p *Pages) withRule(act func(*kit.Visit, rules.Rule) error) func(*kit.Visit) error {
	return func(v *kit.Visit) error {
		r, err := p.ruleOf(v)
		if err != nil {
			return err
		}
		return act(v, r)
	}
}

// onRule wraps an action that needs the rule's ID and the posted form.
func onRule(act func(v *kit.Visit, id int64, form url.Values) error) func(*kit.Visit) error {
	return func(v *kit.Visit) error {
		id, err := v.ID("id")
		if err != nil {
			return err
		}
		return kit.Posted(func(v *kit.Visit, form url.Values) error { return act(v, id, form) })(v)
	}
}
