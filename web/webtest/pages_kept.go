package webtest

import (
	"net/url"

	"sluice/internal/access"
)

// keptPages returns the pages that ask for confirmation, and the forms that keep rejected input.
func keptPages() []Shown {
	return []Shown{
		{Name: "rules-bulk", About: "Disable many rules", Role: access.RoleEditor, Path: "/console/rules/bulk",
			Form: url.Values{"act": {"off"}, "all": {"1"}, "back": {"/console/rules?fail_mode=open"}}},
		{Name: "rules-bulk-delete", About: "Delete rules", Role: access.RoleEditor, Path: "/console/rules/bulk",
			Form: url.Values{"act": {"delete"}, "rule": {"1", "2"}, "back": {"/console/rules"}}},
		{Name: "rules-bulk-too-many", About: "Too many rules at once", Role: access.RoleEditor, Path: "/console/rules/bulk",
			Form: url.Values{"act": {"off"}, "all": {"1"}}, Prepare: func(w *World) { w.Rules.List = ManyRules(10_000) }},
		{Name: "overview-hot", About: "Overview with hot keys", Role: access.RoleViewer, Path: "/console", Prepare: HeatUp},
		{Name: "overview-tour", About: "Overview, a stop of a tour", Role: access.RoleViewer, Path: "/console",
			Prepare: Tour},
		{Name: "signed-out", About: "Signed out while filling in a form", Path: "/console/rules",
			Form: url.Values{"name": {"charges-per-user"}, "limit": {"100"}}},
	}
}
