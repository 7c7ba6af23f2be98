package database

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

func TestEditRules_EditsWhatIsAsSeenAndSaysWhatIsNot(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var seen []rules.SeenVersion
		for i := range 5 {
			r := mustCreate(t, d, sample(fmt.Sprintf("rule-%d", i)))
			seen = append(seen, rules.SeenVersion{ID: r.ID, Version: r.Version})
		}
		grace := rules.Actor{Kind: "user", Name: "grace"}
		edited := func(id int64, edit func(*rules.Rule)) {
			t.Helper()
			r, err := d.GetRule(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			edit(&r)
			if _, err := d.UpdateRule(t.Context(), ada, r, 0); err != nil {
				t.Fatal(err)
			}
		}
		edited(seen[1].ID, func(r *rules.Rule) { r.Limit = 77 }) // meanwhile
		if err := d.DeleteRule(t.Context(), ada, seen[2].ID, 0); err != nil {
			t.Fatal(err)
		}
		edited(seen[3].ID, func(r *rules.Rule) { r.OverLimit = rules.OverLimitDefer })
		seen[3].Version++
		shadow := func(r *rules.Rule) { r.Mode = rules.ModeShadow }
		got, err := d.EditRules(t.Context(), grace, seen, shadow)
		if err != nil || got.Changed != 2 || got.Same != 0 || len(got.Skipped) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		var invalid *field.ValidationError
		if l := got.Skipped; !errors.Is(l[0].Err, rules.ErrStale) || l[0].Name != "rule-1" ||
			!errors.Is(l[1].Err, rules.ErrNotFound) || l[1].ID != seen[2].ID || !errors.As(l[2].Err, &invalid) {
			t.Errorf("skipped: %+v", got.Skipped)
		}
		if r, err := d.GetRule(t.Context(), seen[1].ID); err != nil || r.Limit != 77 || r.Mode != rules.ModeEnforce {
			t.Errorf("what someone changed meanwhile is %+v, %v", r, err)
		}
		past, err := d.RuleHistory(t.Context(), seen[0].ID, 1, 0)
		if err != nil || past[0].Actor != grace || past[0].Action != "update" || past[0].Rule.Mode != rules.ModeShadow ||
			len(past[0].Changes) != 1 {
			t.Errorf("history: %+v, %v", past, err)
		}
		before, err := d.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err = d.EditRules(t.Context(), grace,
			[]rules.SeenVersion{{ID: seen[0].ID, Version: seen[0].Version + 1}, seen[1]},
			shadow)
		if err != nil || got.Changed != 0 || got.Same != 1 || len(got.Skipped) != 1 {
			t.Errorf("again: %+v, %v", got, err)
		}
		if after, err := d.Versions(t.Context()); err != nil || after.Rules != before.Rules {
			t.Errorf("an edit of nothing made version %v of %v, %v", after.Rules, before.Rules, err)
		}
	})
}

func TestEditRules_ManyAreOneVersion(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var seen []rules.SeenVersion
		for i := range insertBatch + 20 {
			r := mustCreate(t, d, sample(fmt.Sprintf("rule-%d", i)))
			seen = append(seen, rules.SeenVersion{ID: r.ID, Version: r.Version})
		}
		before, err := d.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.EditRules(t.Context(), ada, seen, func(r *rules.Rule) { r.IsActive = false })
		if err != nil || got.Changed != len(seen) {
			t.Fatalf("%+v, %v", got, err)
		}
		if after, err := d.Versions(t.Context()); err != nil || after.Rules.N != before.Rules.N+1 {
			t.Errorf("version %v after %v, %v", after.Rules, before.Rules, err)
		}
	})
}

func TestReason_IsKeptWithTheVersionAndInTheAuditLog(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		why := ada
		why.Reason = "the sale begins on Friday"
		r, err := d.CreateRule(t.Context(), why, sample("charges"))
		if err != nil {
			t.Fatal(err)
		}
		r.Limit = 500
		if _, err := d.UpdateRule(t.Context(), ada, r, 0); err != nil {
			t.Fatal(err)
		}
		past, err := d.RuleHistory(t.Context(), r.ID, 0, 0)
		if err != nil || len(past) != 2 || past[0].Reason != "" || past[1].Reason != why.Reason || past[1].Actor != ada {
			t.Errorf("%+v, %v", past, err)
		}
		log, err := d.ListAudit(t.Context(), audit.Query{Limit: 2})
		if err != nil || len(log) != 2 || log[0].Reason() != "" || log[1].Reason() != why.Reason {
			t.Errorf("%+v, %v", log, err)
		}
		for _, bad := range []string{strings.Repeat("a", rules.MaxReason+1), "two\nlines", "\xff"} {
			var invalid *field.ValidationError
			if err := d.DeleteRule(t.Context(), rules.Actor{Kind: "user", Name: "ada", Reason: bad}, r.ID, 0); !errors.As(err,
				&invalid) || invalid.Fields[0].Field != "reason" {
				t.Errorf("%.20q: %v", bad, err)
			}
		}
	})
}

func TestDeleteRules_DeletesWhatIsAsSeenAndSaysWhatIsNot(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var seen []rules.SeenVersion
		many := make([]rules.Rule, 620)
		for i := range many {
			many[i] = sample(fmt.Sprintf("rule-%03d", i))
		}
		if err := d.ApplyPlan(t.Context(), ada, rules.MakePlan(nil, many, false)); err != nil {
			t.Fatal(err)
		}
		for len(seen) < len(many) {
			list, err := d.BrowseRules(t.Context(), rules.Browse{Query: rules.Query{PageSize: 500}, Offset: len(seen)})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.Rules {
				seen = append(seen, rules.SeenVersion{ID: r.ID, Version: r.Version})
			}
		}
		changed, err := d.GetRule(t.Context(), seen[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		changed.Limit = 77
		if _, err := d.UpdateRule(t.Context(), ada, changed, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteRule(t.Context(), ada, seen[2].ID, 0); err != nil {
			t.Fatal(err)
		}
		grace := rules.Actor{Kind: "user", Name: "grace", Reason: "unused"}
		got, err := d.DeleteRules(t.Context(), grace, append(seen[:610:610], seen[0]))
		if err != nil || got.Changed != 608 || len(got.Skipped) != 3 {
			t.Fatalf("%d, skipped %+v, %v", got.Changed, got.Skipped, err)
		}
		if l := got.Skipped; !errors.Is(l[0].Err, rules.ErrStale) || l[0].Name != "rule-001" ||
			!errors.Is(l[1].Err, rules.ErrNotFound) || !errors.Is(l[2].Err, rules.ErrNotFound) {
			t.Errorf("skipped: %+v", l)
		}
		list, err := d.BrowseRules(t.Context(), rules.Browse{})
		if err != nil || list.Total != 11 {
			t.Errorf("%d rules are left, %v", list.Total, err)
		}
		past, err := d.RuleHistory(t.Context(), seen[0].ID, 1, 0)
		if err != nil || past[0].Action != "delete" || past[0].Actor.Name != "grace" || past[0].Reason != "unused" {
			t.Errorf("history: %+v, %v", past, err)
		}
		before, err := d.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.DeleteRules(t.Context(), grace, seen[:3]); err != nil || got.Changed != 0 || len(got.Skipped) != 3 {
			t.Errorf("again: %+v, %v", got, err)
		}
		if after, err := d.Versions(t.Context()); err != nil || after != before {
			t.Errorf("nothing was deleted, but the version is %+v after %+v, %v", after, before, err)
		}
	})
}
