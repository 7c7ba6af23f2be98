package kit

import (
	"slices"
	"strings"
	"time"

	"sluice/web/view"
)

// entries are the entries of the navigation, in order.
var entries = []view.NavItem{
	{Path: PathHome, Label: "Overview", Icon: "layout-dashboard"},
	{Path: PathTraffic, Label: "Traffic", Icon: "chart-line"},
	{Path: PathRules, Label: "Rules", Icon: "list-filter"},
	{Path: PathFailModes, Label: "Fail modes", Icon: "shield-alert"},
	{Path: PathExplain, Label: "Explain", Icon: "search-code"},
	{Path: PathDenials, Label: "Denials", Icon: "ban"},
	{Path: PathAlerts, Label: "Alerts", Icon: "bell"},
	{Path: PathIncidents, Label: "Incidents", Icon: "siren"},
	{Path: PathHotKeys, Label: "Hot keys", Icon: "flame"},
	{Path: PathRegions, Label: "Regions", Icon: "globe"},
	{Path: PathDeferred, Label: "Deferred", Icon: "inbox"},
	{Path: PathPools, Label: "Pools", Icon: "droplets"},
	{Path: PathProfiles, Label: "Profiles", Icon: "waypoints"},
	{Path: PathPeople, Label: "People & tokens", Icon: "users"},
	{Path: PathAudit, Label: "Audit log", Icon: "scroll-text"},
	{Path: PathImport, Label: "Import & export", Icon: "arrow-up-down"},
	{Path: PathSettings, Label: "Settings", Icon: "sliders-horizontal"},
}

// Navigation are the entries of the navigation. The one whose path is here is marked as current.
func Navigation(here string) []view.NavItem {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Current = out[i].Path == here
	}
	return out
}

// staleAfter is how old the last confirmation by the database may be before every page shows a banner.
const staleAfter = 15 * time.Second

// bell is the number of active alerts, which every page shows.
func (k *Kit) bell() view.Bell {
	n, known := k.ActiveAlerts()
	return view.Bell{Active: n, Known: known}
}

// nodeBanners are the warnings at the top of every page that come and go while it is open. The page of regions says
// itself which are cut off.
func (v *Visit) nodeBanners(n *Node) []view.Banner {
	var out []view.Banner
	for _, t := range n.Trouble {
		b := view.Banner{Kind: "bad", Text: t.Banner}
		if b.Text != "" && !slices.Contains(out, b) { // several subjects are one warning
			out = append(out, b)
		}
	}
	if len(n.CutOff) > 0 && v.Request().URL.Path != PathRegions && v.QueryParam("of") != "regions" {
		out = append(out, view.Banner{Kind: "bad", Page: PathRegions, PageName: "Regions",
			Text: "Cut off from this region: " + strings.Join(n.CutOff, ", ") +
				". Rules that span regions go on without news. "})
	}
	return out
}

// banners are the other warnings at the top of every page. They say what it does not offer, so they last as long as it.
func (v *Visit) banners(n *Node) []view.Banner {
	var out []view.Banner
	now := v.kit.Now()
	if v.Replica != nil {
		out = append(out, view.Banner{Kind: "info", Primary: v.hereAtPrimary(),
			Text: "This console is read-only: the rules database of this region is a read replica. "})
	}
	confirmed := time.UnixMilli(n.Confirmed)
	switch {
	case n.Source == "copy":
		out = append(out, view.Banner{Kind: "warn",
			Text: "This node uses its saved copy of the rules, because the rules database has been unreachable since the " +
				"node started."})
	case v.DatabaseDown || n.Confirmed > 0 && now.Sub(confirmed) > staleAfter:
		if n.Confirmed == 0 {
			confirmed = time.Time{}
		}
		text := "The rules database is unreachable. Requests are still being rate-limited with the last loaded rules; " +
			"changes are disabled until it is back. Then reload this page."
		out = append(out, view.Banner{Kind: "warn", Text: text, Since: confirmed})
	}
	return out
}

// Paths of pages that several areas link to.
const (
	PathHome      = "/console"
	PathTraffic   = "/console/traffic"
	PathSignIn    = "/console/sign-in"
	PathRules     = "/console/rules"
	PathReplay    = "/console/rules/replay"
	PathFailModes = "/console/fail-modes"
	PathExplain   = "/console/explain"
	PathDenials   = "/console/denials"
	PathRequests  = "/console/requests"
	PathSearch    = "/console/search"
	PathAlerts    = "/console/alerts"
	PathIncidents = "/console/incidents"
	PathHotKeys   = "/console/hot-keys"
	PathRegions   = "/console/regions"
	PathDeferred  = "/console/deferred"
	PathPools     = "/console/pools"
	PathProfiles  = "/console/profiles"
	PathPeople    = "/console/people"
	PathAudit     = "/console/audit"
	PathImport    = "/console/import"
	PathSettings  = "/console/settings"
)
