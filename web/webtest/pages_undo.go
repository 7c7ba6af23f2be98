package webtest

import (
	"context"
	"net/url"

	"sluice/internal/access"
	"sluice/rules"
)

// undoPages are the pages for undoing changes.
func undoPages() []Shown {
	return []Shown{
		{Name: "undo", About: "A message with Undo", Role: access.RoleEditor, Path: "$UNDO"},
		{Name: "undo-over", About: "412: undo too late", Role: access.RoleEditor, Path: "/console/undo",
			Form: url.Values{"to": {"rule.1.0.3"}, "back": {"/console/rules/1"}}},
		{Name: "audit-bulk", About: "Audit log, a bulk edit", Role: access.RoleEditor, Path: "/console/audit",
			Prepare: func(w *World) { bulkEdit30(w, false) }},
		{Name: "undo-all", About: "Undo a bulk edit, a rule changed since", Role: access.RoleEditor,
			Path: "/console/audit/121/undo", Prepare: func(w *World) { bulkEdit30(w, false) }},
		{Name: "undo-all-nothing", About: "Undo a bulk edit, nothing is left", Role: access.RoleEditor,
			Path: "/console/audit/121/undo", Prepare: func(w *World) { bulkEdit30(w, true) }},
		{Name: "undo-all-stale", About: "412: undo a bulk edit, nothing is left", Role: access.RoleEditor,
			Path: "/console/audit/121/undo", Form: url.Values{}, Prepare: func(w *World) { bulkEdit30(w, true) }},
	}
}

// bulkEdit30 gives 30 rules an owner at once. Then someone changes one of them, and undoes the edit if undone is set.
func bulkEdit30(w *World, undone bool) {
	ctx, ada := context.Background(), rules.Actor{Kind: "user", Name: "ada"}
	w.Rules.List = append(w.Rules.List, ManyRules(40)[len(w.Rules.List):]...)
	w.Rules.remember()
	var seen []rules.SeenVersion
	for i := range 30 {
		seen = append(seen, rules.SeenVersion{ID: w.Rules.List[i].ID})
	}
	done, err := w.Rules.EditRules(ctx, ada, seen, func(r *rules.Rule) { r.Owner = new("platform") })
	if err != nil || done.Changed != 30 {
		panic(err)
	}
	r := w.Rules.List[3].Clone()
	r.Limit++
	if _, err := w.Rules.UpdateRule(ctx, ada, r, r.Version); err != nil {
		panic(err)
	}
	if undone {
		if _, err := w.Rules.UndoBulk(ctx, ada, done.Bulk); err != nil {
			panic(err)
		}
	}
}
