package webtest

import (
	"errors"

	"sluice/internal/access"
)

// trafficPages are the pages of traffic in the gallery.
func trafficPages() []Shown {
	viewer := access.RoleViewer
	return []Shown{
		{Name: "traffic", About: "Traffic", Role: viewer, Path: "/console/traffic"},
		{Name: "traffic-keys", About: "Traffic of a rule by key", Role: viewer,
			Path: "/console/traffic?rule=charges-per-user&by=key&sort=allowed&desc=1"},
		{Name: "traffic-tenants", About: "Traffic by tenant, filtered", Role: viewer,
			Path: "/console/traffic?by=tenant&q=acme"},
		{Name: "traffic-many", About: "Traffic of 10,000 rules, 90 days", Role: viewer,
			Path:    "/console/traffic?range=90d",
			Prepare: func(w *World) { w.Rules.List = ManyRules(10_000) }},
		{Name: "tenant", About: "A tenant", Role: viewer, Path: "/console/tenants?tenant=acme"},
		{Name: "tenant-unknown", About: "A tenant of which nothing is known", Role: viewer,
			Path: "/console/tenants?tenant=nobody", Prepare: func(w *World) { w.Stats.Quiet = true }},
		{Name: "tenant-failing", About: "A tenant, figures unavailable", Kind: Failing, Role: viewer,
			Path: "/console/tenants?tenant=acme", Prepare: func(w *World) { w.Stats.Err = errAway }},
		{Name: "traffic-partial", About: "Traffic, the counters unreachable", Role: viewer, Path: "/console/traffic?by=node",
			Prepare: func(w *World) { w.Stats.Partial = errors.New("the counters are unreachable") }},
		{Name: "traffic-failing", About: "Traffic, figures unavailable", Kind: Failing, Role: viewer,
			Path: "/console/traffic", Prepare: func(w *World) { w.Stats.Err = errAway }},
		{Name: "traffic-quiet", About: "Traffic without requests", Role: viewer, Path: "/console/traffic?by=route",
			Prepare: func(w *World) { w.Stats.Quiet = true }},
		{Name: "traffic-wrong", About: "Traffic, invalid address", Role: viewer,
			Path: "/console/traffic?by=planet&from=2026-11-21T12:00&to=2026-11-21T11:00"},
	}
}
