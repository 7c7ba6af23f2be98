// Package replay reads the decision log again: to try an edited rule on recorded traffic, and to suggest limits.
package replay

import (
	"net/http"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/web/kit"
)

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	// Jobs read the decision log.
	Jobs *backtest.Jobs
}

const pathSuggest = kit.PathRule + "/suggest"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const editor = access.RoleEditor
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathReplay, Role: editor, Handle: p.show},
		{Method: http.MethodPost, Path: kit.PathReplay + "/cancel", Role: editor, Offline: true,
			Handle: kit.Posted(p.cancel)},
		{Method: http.MethodGet, Path: pathSuggest, Role: editor, Handle: kit.WithRule(p.suggestPage)},
		{Method: http.MethodPost, Path: pathSuggest, Role: editor, Offline: true, Handle: kit.WithRule(p.startSuggest)},
		{Method: http.MethodPost, Path: kit.PathRule + "/candidate", Role: editor, Handle: kit.OnRule(p.makeCandidate)},
	}
}
