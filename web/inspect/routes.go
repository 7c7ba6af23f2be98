// Package inspect shows single requests and keys: samples of recent ones, why a request is denied, what remains of a
// quota, and the search for everything.
package inspect

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	// Explain returns the effect of the rules in force on a request, without charging anything. Errors wrap
	// rules.ErrUnavailable while there are no rules.
	Explain func(ctx context.Context, d *match.Descriptor, weight int64) (Explanation, error)
	// ExplainCall is Explain for a call of Envoy whose domain no profile reads.
	ExplainCall func(ctx context.Context, call *AskedCall) (Explanation, error)
	// Buckets peeks at buckets of a rule (limiter.OpPeek) or resets them (limiter.OpReset). res has a decision for each
	// ask. The error is a *limiter.StoreError.
	Buckets func(ctx context.Context, rule *match.Compiled, op limiter.Op, asks []limiter.Ask, res *limiter.Result) error
	// Spent returns what each region has spent in a bucket that spans regions, nil if that is unknown. It and Home are nil
	// without regions.
	Spent func(ctx context.Context, key limiter.Key, l limiter.Limit) []limiter.RegionUnits
	// Held returns who holds units of a bucket of a rule that are charged and may be unspent.
	Held func(ctx context.Context, rule *match.Compiled, key limiter.Key) []Held
	// Home returns the region that has a bucket, "" for a bucket that each region has.
	Home func(key limiter.Key) string
	// Resets logs resets.
	Resets Resets
	// Deferrals lists and drops deferred requests.
	Deferrals Deferrals
	// RulesBackTo returns the change that leads from the stored rules back to those of an instant. ok is false if more
	// than most rules have changed since. Errors wrap rules.ErrUnavailable.
	RulesBackTo func(ctx context.Context, at time.Time, most int) (back match.Delta, ok bool, err error)
	// TenantAttribute is the attribute that names the tenant of a request.
	TenantAttribute string
}

// Resets writes an audit entry for a reset of a key, or only of its ban (only is ban, else ""), and calls reset before
// it commits: the entry is stored if and only if the reset succeeds.
type Resets interface {
	NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key, only string,
		reset func(context.Context) error) error
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
		{Method: http.MethodGet, Path: kit.PathDenials, Role: access.RoleViewer, Handle: p.listSamples},
		{Method: http.MethodGet, Path: kit.PathRequests, Role: access.RoleViewer, Handle: p.listSamples},
		{Method: http.MethodGet, Path: pathRequest, Role: access.RoleViewer, Handle: p.sampledPage},
		{Method: http.MethodGet, Path: kit.PathSearch, Role: access.RoleViewer, Handle: p.searchPage},
		{Method: http.MethodPost, Path: kit.PathSearch, Role: access.RoleViewer, Offline: true,
			Handle: kit.Posted(p.searchFor)},
		{Method: http.MethodGet, Path: kit.PathExplain, Role: access.RoleViewer, Handle: p.explainForm},
		{Method: http.MethodPost, Path: kit.PathExplain, Role: access.RoleViewer, Offline: true,
			Handle: kit.Posted(p.explain)},
		{Method: http.MethodGet, Path: pathKeys, Role: access.RoleViewer, Handle: p.keyPage},
		{Method: http.MethodPost, Path: pathKeys, Role: access.RoleViewer, Offline: true, Handle: kit.Posted(p.findKey)},
		{Method: http.MethodPost, Path: pathKeys + "/reset", Role: access.RoleEditor, Reauth: p.resets,
			Handle: kit.Posted(p.resetKey)},
		{Method: http.MethodPost, Path: pathKeys + "/unban", Role: access.RoleEditor, Handle: kit.Posted(p.liftBan)},
		{Method: http.MethodPost, Path: pathKeys + "/override", Role: access.RoleEditor, Handle: kit.Posted(p.overrideKey)},
		{Method: http.MethodGet, Path: view.PathTenants, Role: access.RoleViewer, Handle: p.tenantPage},
		{Method: http.MethodGet, Path: kit.PathDeferred, Role: access.RoleViewer, Handle: p.deferredPage},
		{Method: http.MethodPost, Path: kit.PathDeferred + "/:id/drop", Role: access.RoleEditor, Reauth: p.drops,
			Handle: kit.Posted(p.dropDeferred)},
		{Method: http.MethodPost, Path: pathKeys + "/lift", Role: access.RoleEditor, Handle: kit.Posted(p.deleteOverride)},
	}
}

// Feed returns the live parts of the page of denials or, if all is set, of the page of requests.
func (p *Pages) Feed(v *kit.Visit, all bool) kit.Feed {
	return func() templ.Component {
		m, err := p.samplesOf(v, all)
		return sampleParts(m, kit.Unreadable(err))
	}
}
