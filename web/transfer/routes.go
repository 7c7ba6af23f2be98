// Package transfer moves many things at once: all rules and pools out and in, and the
// overrides of a rule in.
package transfer

import (
	"context"
	"net/http"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/kit"
)

// Store is what the area needs beside the kit. Errors wrap rules.ErrNotFound,
// ErrStale, ErrNameTaken, ErrPoolUsed or ErrUnavailable, or are a
// *rules.ValidationError.
type Store interface {
	LoadAllRules(ctx context.Context) (rules.Source, error)
	// ApplyPlan carries out all of a plan or nothing.
	ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
	// ImportOverrides takes the settings by which addresses are counted.
	ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport, opt rules.Options) (rules.OverrideImported, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Store Store
	// uploads are files whose plan has been shown.
	uploads uploads
}

const pathOverrides = kit.PathRules + "/:id/overrides/import"

// What the forms take: files of the largest size, and a little for the rest of the
// form. The page of a plan carries the file along, in the longest encoding of a
// form: three bytes for one.
var (
	rulesFile     = &kit.Upload{Field: "text", Most: rulefile.MaxFile + kit.MaxForm, TooLarge: "A rules file can have up to 64 MiB and 100,000 rules."}
	carriedFile   = &kit.Upload{Field: "text", Most: 3*kit.MaxCarried + 64<<10, TooLarge: "A form can have up to 1 MiB."}
	overridesFile = &kit.Upload{Field: "csv", Most: rulefile.MaxOverrideFile + kit.MaxForm, TooLarge: "A file of overrides can have up to 16 MiB."}
)

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const viewer, editor = access.RoleViewer, access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: "/console/export", Role: viewer, Handle: p.export},
		{Method: http.MethodGet, Path: kit.PathImport, Role: viewer, Handle: p.transferForm},
		{Method: http.MethodPost, Path: kit.PathImport, Role: editor, Upload: rulesFile, Handle: p.planImport},
		{Method: http.MethodPost, Path: kit.PathImport + "/apply", Role: editor, Upload: carriedFile, Reauth: true, Handle: p.applyImport},
		{Method: http.MethodGet, Path: pathOverrides, Role: editor, Handle: p.importForm},
		{Method: http.MethodPost, Path: pathOverrides, Role: editor, Upload: overridesFile, Handle: p.importOverrides},
	}
}
