// Package overview shows the state of the fleet: the home page, incidents, hot keys, regions, and the settings of this
// node.
package overview

import (
	"context"
	"net/http"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/access"
	"sluice/internal/records"
	"sluice/internal/region"
	"sluice/web/kit"
)

// Pages are the pages of the area. Fields are required unless noted.
type Pages struct {
	*kit.Kit
	// Settings returns the settings of this node, without secrets.
	Settings func() []SettingGroup
	// Tokens lists API tokens.
	Tokens func(ctx context.Context) ([]access.Token, error)
	// DecisionLogs are the accounts of the decision logs of this node, by sink; nil if there are none.
	DecisionLogs map[string]func() records.Totals
	// Regions is what this node knows of other regions; nil without regions.
	Regions func() region.Overview
	// Watching means that this node detects hot keys.
	Watching bool
}

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Path: kit.PathHome, Role: access.RoleViewer, Handle: p.overview},
		{Method: http.MethodPost, Path: "/console/begin", Role: access.RoleViewer, Offline: true, Handle: hideBegin},
		{Method: http.MethodGet, Path: kit.PathHotKeys, Role: access.RoleViewer, Handle: p.hotKeys},
		{Method: http.MethodGet, Path: kit.PathNodes, Role: access.RoleViewer, Handle: p.nodes},
		{Method: http.MethodGet, Path: kit.PathRegions, Role: access.RoleViewer, Handle: p.regions},
		{Method: http.MethodGet, Path: kit.PathIncidents, Role: access.RoleViewer, Handle: p.incidents},
		{Method: http.MethodGet, Path: pathIncidentsCSV, Role: access.RoleViewer, Handle: p.incidentsCSV},
		{Method: http.MethodGet, Path: kit.PathSettings, Role: access.RoleViewer, Handle: p.settings},
	}
}

// Feed returns the live parts of the home page.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	var first time.Time // the start of the chart on the page
	return func() templ.Component {
		m, before := p.live(v), first
		first = m.Timeline.Range.From
		return overviewParts(m, before)
	}
}
