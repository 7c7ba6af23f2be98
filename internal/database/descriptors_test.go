package database

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// describing returns a rule for descriptors of a domain.
func describing(name, domain string, list ...entries.Element) rules.Rule {
	r := rules.Rule{
		Name: name, Descriptor: &rules.RuleDescriptor{Domain: domain, Entries: list}, Algorithm: "fixed_window", Limit: 5,
		WindowMS: 60_000, IsActive: true,
	}
	r.Normalize()
	return r
}

// full has every member that belongs to a descriptor.
func full(name string) rules.Rule {
	r := describing(name, "shop", entries.Element{Key: "path", Pattern: "/v1/*", Shared: true},
		entries.Element{Key: "user"},
		entries.Element{Key: "Zwölf Ängste — 漢字 '; DROP TABLE rules;--", Value: "%_\\ \t\""})
	r.Addend, r.Quota, r.ShareThreshold = rules.AddendCharge, true, true
	r.Replaces, r.Metadata = []string{"other", "gone"}, map[string]string{"team": "pay\nments", "b.c": ""}
	r.Candidate = &rules.Candidate{Limit: ptr[int64](9)}
	return r
}

func TestDescriptors_AreStored(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		unlimited := describing("unlimited", "shop", entries.Element{Key: "user", Value: "root"})
		unlimited.Unlimited, unlimited.Limit, unlimited.WindowMS = true, 0, 0
		for _, r := range []rules.Rule{full("full"), unlimited} {
			created := mustCreate(t, d, r)
			want := r
			want.Normalize()
			want.ID, want.Version, want.CreatedAt, want.UpdatedAt = created.ID, 1, created.CreatedAt, created.CreatedAt
			want.FailFrom = ""
			if diff := cmp.Diff(want, created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if read, err := d.GetRule(ctx, created.ID); err != nil || cmp.Diff(created, read) != "" {
				t.Errorf("read back %+v, %v", read, err)
			}
		}
		list, _, err := loadRules(ctx, d)
		if err != nil || len(list) != 2 || list[0].Scope != "" {
			t.Fatalf("got %+v, %v", list, err)
		}
		if set, err := match.Compile(list, 1, match.Options{}); err != nil || set.Len() != 2 {
			t.Errorf("the set: %v", err)
		}
		edit := list[0].Clone()
		edit.Descriptor.Entries = edit.Descriptor.Entries[:1]
		edit.Metadata, edit.Quota = nil, false
		edited, err := d.UpdateRule(ctx, ada, edit, 1)
		if err != nil || edited.Metadata != nil || edited.Quota || len(edited.Descriptor.Entries) != 1 {
			t.Fatalf("got %+v, %v", edited, err)
		}
		if promoted, err := d.PromoteRule(ctx, ada, edit.ID, 2); err != nil || promoted.Limit != 9 ||
			promoted.Descriptor.Domain != "shop" {
			t.Errorf("promoted: %+v, %v", promoted, err)
		}
		back, err := d.RollbackRule(ctx, ada, edit.ID, 1, 3)
		want := list[0].Clone()
		want.Version, want.UpdatedAt = 4, back.UpdatedAt
		if err != nil || cmp.Diff(want, back) != "" {
			t.Errorf("rolled back: %v\n%s", err, cmp.Diff(want, back))
		}
		history, err := d.RuleHistory(ctx, edit.ID, 10, 0)
		if err != nil || len(history) != 4 || cmp.Diff(back, history[0].Rule) != "" {
			t.Errorf("history: %+v, %v", history, err)
		}
	})
}

// Of several active rules with one descriptor only one would apply, so a second one is refused.
func TestDescriptors_TwoActiveRulesDiffer(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		user, path := entries.Element{Key: "user"}, entries.Element{Key: "path", Pattern: "/a*"}
		a, b := mustCreate(t, d, describing("a", "shop", user)), mustCreate(t, d, describing("b", "shop", path))
		mustCreate(t, d, describing("c", "other", user))
		taken := func(what string, err error) {
			t.Helper()
			var e *rules.TakenError
			if !errors.As(err, &e) || e.Field != "descriptor" {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := d.CreateRule(ctx, ada, describing("d", "shop", user))
		taken("create", err)
		shared := path
		shared.Shared = true
		_, err = d.CreateRule(ctx, ada, describing("d", "shop", shared))
		taken("create one that only shares", err)
		off := describing("d", "shop", user)
		off.IsActive = false
		off = mustCreate(t, d, off)
		on := off.Clone()
		on.IsActive = true
		_, err = d.UpdateRule(ctx, ada, on, 0)
		taken("enable", err)
		done, err := d.EditRules(ctx, ada, []rules.SeenVersion{{ID: off.ID, Version: 1}},
			func(r *rules.Rule) { r.IsActive = true })
		if err != nil || done.Changed != 0 || len(done.Skipped) != 1 {
			t.Fatalf("enable in bulk: %+v, %v", done, err)
		}
		taken("enable in bulk", done.Skipped[0].Err)
		moved := b.Clone()
		moved.Descriptor = a.Descriptor
		_, err = d.UpdateRule(ctx, ada, moved, 0)
		taken("update", err)

		exchanged := a.Clone()
		exchanged.Descriptor = b.Descriptor
		stored := rules.File{Rules: []rules.Rule{a, b}}
		plan := rules.MakeFilePlan(stored, rules.File{Rules: []rules.Rule{exchanged, moved}}, false)
		if err := d.ApplyPlan(ctx, ada, plan); err != nil {
			t.Errorf("exchange: %v", err)
		}
		third := describing("third", "shop", user)
		taken("plan", d.ApplyPlan(ctx, ada, rules.MakeFilePlan(stored, rules.File{Rules: []rules.Rule{third}}, false)))

		for domain, want := range map[string][]string{"shop": {"a", "b", "d"}, "other": {"c"}, "sho": nil, "%": nil,
			"": {"a", "b", "c", "d"}} {
			var names []string
			page, err := d.ListRules(ctx, rules.Query{Equal: map[string]string{rules.FilterDomain: domain}})
			for _, r := range page.Rules {
				names = append(names, r.Name)
			}
			if err != nil || cmp.Diff(want, names) != "" {
				t.Errorf("of the domain %q: %v, %v", domain, names, err)
			}
		}
	})
}
