// Package transfer exports and imports all rules, pools and profiles, and imports the overrides of a rule.
package transfer

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/rulefile"
	"sluice/web/kit"
)

// Store is what the area needs besides the kit. Errors wrap rules.ErrNotFound,
// ErrStale, ErrNameTaken, ErrPoolUsed or ErrUnavailable, or are a
// *field.ValidationError.
type Store interface {
	LoadAllRules(ctx context.Context) (rules.Source, error)
	// ApplyPlan applies a plan as a whole or not at all.
	ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
	// ImportOverrides needs the settings that decide which addresses are counted together.
	ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport,
		opt match.Options) (rules.OverrideImported, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Store Store
	// uploads are files whose plan has been shown.
	uploads uploads
}

const pathOverrides = kit.PathRules + "/:id/overrides/import"

// Size limits of the forms: the largest file and the other fields. The page of a plan carries the file in a form, whose
// encoding takes up to three bytes for one.
var (
	rulesFile = &kit.Upload{Field: "text", Most: rulefile.MaxFile + kit.MaxForm,
		TooLarge: "A rules file can have up to 64 MiB and 100,000 rules."}
	carriedFile   = &kit.Upload{Field: "text", Most: 3*kit.MaxCarried + 64<<10, TooLarge: "A form can have up to 1 MiB."}
	overridesFile = &kit.Upload{Field: "csv", Most: rulefile.MaxOverrideFile + kit.MaxForm,
		TooLarge: "A file of overrides can have up to 16 MiB."}
)

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: "/console/export", Role: viewer, Handle: p.export},
		{Method: http.MethodGet, Path: kit.PathImport, Role: viewer, Handle: p.transferForm},
		{Method: http.MethodPost, Path: kit.PathImport, Role: editor, Upload: rulesFile, Handle: p.planImport},
		{Method: http.MethodPost, Path: kit.PathImport + "/apply", Role: editor, Upload: carriedFile,
			Reauth: kit.Does("apply the plan of an import"), Handle: p.applyImport},
		{Method: http.MethodGet, Path: pathOverrides, Role: editor, Form: true, Handle: p.importForm},
		{Method: http.MethodPost, Path: pathOverrides, Role: editor, Upload: overridesFile, Handle: p.importOverrides},
	}
}
