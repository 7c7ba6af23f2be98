package webtest

import (
	"context"

	"sluice/rules"
	"sluice/web"
)

var _ web.RuleBulk = (*Rules)(nil)

// EditRules implements web.RuleBulk.
func (f *Rules) EditRules(ctx context.Context, actor rules.Actor, seen []rules.Seen, edit func(*rules.Rule)) (rules.BulkEdited, error) {
	var out rules.BulkEdited
	if f.Err != nil {
		return out, f.Err
	}
	for _, s := range seen {
		r, err := f.GetRule(ctx, s.ID)
		if err != nil {
			out.Left = append(out.Left, rules.LeftAlone{ID: s.ID, Err: err})
			continue
		}
		edited := r.Clone()
		edit(&edited)
		if r.Version == s.Version && len(rules.Diff(&r, &edited)) == 0 {
			out.Same++
			continue
		}
		if _, err := f.UpdateRule(ctx, actor, edited, s.Version); err != nil {
			out.Left = append(out.Left, rules.LeftAlone{ID: s.ID, Name: r.Name, Err: err})
			continue
		}
		out.Changed++
	}
	return out, nil
}
