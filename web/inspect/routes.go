// Package inspect looks into single requests and keys: whom limits denied, why, and
// what a bucket holds.
package inspect

import (
	"context"
	"net/http"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/kit"
)

// Deps is what the area needs beside the kit. Every field must be given.
type Deps struct {
	// Explain says what the rules in force do with a request of a weight, spending
	// nothing. Errors wrap rules.ErrUnavailable while there are no rules.
	Explain func(ctx context.Context, d *rules.Descriptor, weight int64) (Explanation, error)
	// Buckets looks at buckets of a rule (limiter.OpPeek) or forgets them
	// (limiter.OpReset); res has a decision for each ask. The error is a *limiter.StoreError.
	Buckets func(ctx context.Context, rule *rules.Compiled, op limiter.Op, asks []limiter.Ask, res *limiter.Result) error
	// Resets keeps account of buckets that people reset.
	Resets Resets
}

// Resets writes that a bucket of a rule is reset, and calls reset in between: the
// note stays if and only if that succeeds.
type Resets interface {
	NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key string, reset func(context.Context) error) error
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

const pathKeys = "/console/keys"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathDenials, Role: access.RoleViewer, Handle: p.listDenials},
		{Method: http.MethodGet, Path: kit.PathExplain, Role: access.RoleViewer, Handle: p.explainForm},
		{Method: http.MethodPost, Path: kit.PathExplain, Role: access.RoleViewer, Offline: true, Handle: kit.Posted(p.explain)},
		{Method: http.MethodGet, Path: pathKeys, Role: access.RoleViewer, Handle: p.keyPage},
		{Method: http.MethodPost, Path: pathKeys, Role: access.RoleViewer, Handle: kit.Posted(p.findKey)},
		{Method: http.MethodPost, Path: pathKeys + "/reset", Role: access.RoleEditor, Reauth: true, Handle: kit.Posted(p.resetKey)},
		{Method: http.MethodPost, Path: pathKeys + "/override", Role: access.RoleEditor, Handle: kit.Posted(p.overrideKey)},
		{Method: http.MethodPost, Path: pathKeys + "/lift", Role: access.RoleEditor, Handle: kit.Posted(p.liftOverride)},
	}
}

// Feed is what moves on the page of denials.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	return func() templ.Component {
		m, err := p.denialsOf(v)
		return denialParts(m, kit.Unread(err))
	}
}
