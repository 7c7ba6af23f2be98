package kit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/view"
)

// group is a group of the navigation.
type group struct {
	label   string
	entries []entry
}

// entry is an entry of the navigation. Only people with the role see it, if there is one.
type entry struct {
	path, label, icon string
	role              access.Role
}

// groups are the groups of the navigation, in order.
var groups = []group{
	{"See", []entry{
		{PathHome, "Overview", "layout-dashboard", ""},
		{PathTraffic, "Traffic", "chart-line", ""},
		{PathRequests, "Requests", "ban", ""},
		{PathAlerts, "Alerts", "bell", ""},
		{PathIncidents, "Incidents", "siren", ""},
		{PathHotKeys, "Hot keys", "flame", ""},
	}},
	{"Change", []entry{
		{PathRules, "Rules", "list-filter", ""},
		{PathOverrides, "Overrides", "key-round", ""},
		{PathPools, "Pools", "droplets", ""},
		{PathProfiles, "Profiles", "waypoints", ""},
		{PathImport, "Import & export", "arrow-up-down", ""},
	}},
	{"Try", []entry{
		{PathExplain, "Explain", "search-code", ""},
		{PathReplay, "Replay", "history", access.RoleEditor},
	}},
	{"Run", []entry{
		{PathNodes, "Nodes", "server", ""},
		{PathRegions, "Regions", "globe", ""},
		{PathFailModes, "Fail modes", "shield-alert", ""},
		{PathDeferred, "Deferred", "inbox", ""},
		{PathAudit, "Audit log", "scroll-text", ""},
		{PathPeople, "People & tokens", "users", ""},
		{PathSettings, "Settings", "sliders-horizontal", ""},
	}},
}

// Navigation returns the navigation at the page whose path is here, which is marked as current. It leaves out the other
// pages that have nothing to show.
func (v *Visit) Navigation(here string) []view.NavGroup {
	return v.navigation(here, v.kit.unused())
}

// Places returns every page of the navigation that the person may see, also those with nothing to show.
func (v *Visit) Places() (all []view.NavItem) {
	for _, g := range v.navigation("", nil) {
		all = append(all, g.Items...)
	}
	return all
}

func (v *Visit) navigation(here string, leave []string) []view.NavGroup {
	out := make([]view.NavGroup, 0, len(groups))
	for _, g := range groups {
		shown := view.NavGroup{Label: g.label}
		for _, e := range g.entries {
			if e.path == here || v.User.Role.Includes(cmp.Or(e.role, access.RoleViewer)) && !slices.Contains(leave, e.path) {
				shown.Items = append(shown.Items,
					view.NavItem{Path: e.path, Label: e.label, Icon: e.icon, Current: e.path == here})
			}
		}
		out = append(out, shown)
	}
	return out
}

// unused returns the paths of the pages that have nothing to show on this node.
func (k *Kit) unused() (paths []string) {
	node, set := k.Node(), k.Sets.Load()
	for path, used := range map[string]bool{
		PathRegions:   node.Region != "",
		PathOverrides: set != nil && set.Overrides() != nil && set.Overrides().Len() > 0,
		PathPools:     set != nil && len(set.Pools()) > 0,
		PathDeferred:  set != nil && defers(set),
	} {
		if !used {
			paths = append(paths, path)
		}
	}
	return paths
}

// defers reports whether a rule in force defers requests over its limit.
func defers(set *match.Set) bool {
	for i := range set.Len() {
		if set.At(i).Rule.OverLimit == rules.OverLimitDefer {
			return true
		}
	}
	return false
}

// staleAfter is how old the last confirmation by the database may be before every page shows a banner.
const staleAfter = 15 * time.Second

// bell is the number of active alerts, which every page shows.
func (k *Kit) bell() view.Bell {
	open, handled, known := k.ActiveAlerts()
	return view.Bell{Active: open, Handled: handled, Known: known}
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
	PathNodes     = "/console/nodes"
	PathOverrides = "/console/overrides"
	PathPools     = "/console/pools"
	PathProfiles  = "/console/profiles"
	PathConnect   = "/console/connect"
	PathPeople    = "/console/people"
	PathAudit     = "/console/audit"
	PathImport    = "/console/import"
	PathSettings  = "/console/settings"
)
