package database

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// lines makes a file that blocks keys.
func lines(keys ...string) []rules.ImportedOverride {
	items := make([]rules.ImportedOverride, len(keys))
	for i, key := range keys {
		items[i] = rules.ImportedOverride{Line: i + 2, Override: rules.Override{Key: key, Blocked: true}}
	}
	return items
}

func TestImportOverrides_CountsWhatItDid(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		keep := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:keep", Blocked: true})
		change := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:change", Limit: ptr[int64](5)})
		mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:drop*", Blocked: true})
		in := rules.OverrideImport{RuleID: r.ID, Items: lines("user:keep", "user:change", "user:new", "user:new*"),
			Prune: true, DryRun: true}
		want := rules.OverrideImported{DryRun: true, Created: 2, Updated: 1, Unchanged: 1, Deleted: 1}
		_, _, seq := loaded(t, d, -1)
		for _, dry := range []bool{true, false} {
			in.DryRun, want.DryRun = dry, dry
			got, err := d.ImportOverrides(ctx, ada, in, match.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Plan == "" || want.Plan != "" && got.Plan != want.Plan {
				t.Errorf("dry run %v: plan %q, want that of the dry run, %q", dry, got.Plan, want.Plan)
			}
			want.Plan = got.Plan
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("dry run %v:\n%s", dry, diff)
			}
			rows, _, now := loaded(t, d, seq)
			if dry != (now == seq) || dry != (len(rows) == 0) {
				t.Errorf("dry run %v: %s, %d after %d", dry, words(rows), now, seq)
			}
			if !dry && words(rows) != "-{user:drop* {user:change} {user:new} {user:new*" {
				t.Errorf("nodes get %s", words(rows))
			}
		}
		for id, version := range map[int64]int64{keep.ID: 1, change.ID: 2} {
			if o, err := d.GetOverride(ctx, r.ID, id); err != nil || o.Version != version || !o.Blocked {
				t.Errorf("got %+v, %v, want version %d", o, err, version)
			}
		}
		_, _, seq = loaded(t, d, -1)
		in.DryRun = false
		if got, err := d.ImportOverrides(ctx, ada, in, match.Options{}); err != nil || got.Unchanged != 4 {
			t.Errorf("again: %+v, %v", got, err)
		}
		if _, _, now := loaded(t, d, -1); now != seq {
			t.Error("an import without a change counts as one")
		}
	})
}

func TestImportOverrides_AllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := mustCreate(t, d, sample("a"))
		items := lines("user:a", "user:b", "b", "", "user:c")
		items[4].Blocked = false
		_, err := d.ImportOverrides(t.Context(), ada, rules.OverrideImport{RuleID: r.ID, Items: items}, match.Options{})
		var invalid *field.ValidationError
		if !errors.As(err, &invalid) {
			t.Fatalf("got %v", err)
		}
		var fields []string
		for _, f := range invalid.Fields {
			fields = append(fields, f.Field)
		}
		if diff := cmp.Diff([]string{"line[4].key", "line[5].key", "line[6].limit"}, fields); diff != "" {
			t.Error(diff)
		}
		if rows, _, seq := loaded(t, d, -1); len(rows) != 0 || seq != 0 {
			t.Errorf("a refused import left %s", words(rows))
		}
		if _, err := d.ImportOverrides(t.Context(), ada, rules.OverrideImport{RuleID: 99, Items: lines("user:a")},
			match.Options{}); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("no such rule: %v", err)
		}
	})
}

// TestImportOverrides_DoesOnlyThePlanThatWasSeen: an override that somebody changed
// meanwhile makes the plan another one, and nothing is done.
func TestImportOverrides_DoesOnlyThePlanThatWasSeen(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		o := mustOverride(t, d, rules.Override{RuleID: r.ID, Key: "user:change", Limit: ptr[int64](5)})
		in := rules.OverrideImport{RuleID: r.ID, Items: lines("user:change", "user:new"), DryRun: true}
		seen, err := d.ImportOverrides(ctx, ada, in, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Limit = ptr[int64](6)
		if _, err := d.UpdateOverride(ctx, ada, o, o.Version, match.Options{}); err != nil {
			t.Fatal(err)
		}
		in.DryRun, in.Expect = false, seen.Plan
		if _, err := d.ImportOverrides(ctx, ada, in, match.Options{}); !errors.Is(err, rules.ErrStale) {
			t.Fatalf("after a change: %v, want ErrStale", err)
		}
		in.DryRun, in.Expect = true, ""
		if seen, err = d.ImportOverrides(ctx, ada, in, match.Options{}); err != nil || seen.Created != 1 ||
			seen.Updated != 1 {
			t.Fatalf("the stale import did something: %+v, %v", seen, err)
		}
		in.DryRun, in.Expect = false, seen.Plan
		if done, err := d.ImportOverrides(ctx, ada, in, match.Options{}); err != nil || done.Created != 1 {
			t.Errorf("the plan as it is now: %+v, %v", done, err)
		}
	})
}

func TestImportOverrides_OfNetworks(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := sample("a")
		r.Scope = "ip"
		r = mustCreate(t, d, r)
		bad := rules.OverrideImport{RuleID: r.ID, Items: lines("10.0.0.0/8", "10.0.0.1/8", "2001:db8::/96", "ip:10.0.0.0/8")}
		var invalid *field.ValidationError
		if _, err := d.ImportOverrides(ctx, ada, bad, match.Options{}); !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		wrong := []field.Problem{
			{Field: "line[3].key", Message: "must be the address of a network; write 10.0.0.0/8"},
			{Field: "line[4].key",
				Message: "cannot match, because addresses are counted by /64 networks; write 2001:db8::/64"},
			{Field: "line[5].key", Message: "is a duplicate, first seen on line 2"},
		}
		if diff := cmp.Diff(wrong, invalid.Fields); diff != "" {
			t.Error(diff)
		}
		in := rules.OverrideImport{RuleID: r.ID, Items: lines("10.0.0.0/8", "ip:10.1.0.0/16", "10.1.2.3", "2001:db8::/32",
			"192.0.2.0/24", "::/0")}
		if got, err := d.ImportOverrides(ctx, ada, in, match.Options{}); err != nil || got.Created != 6 {
			t.Fatalf("got %+v, %v", got, err)
		}
		for text, want := range map[string]int{"10.1.2.3": 3, "ip:10.1.9.9": 2, "10.2.0.1": 1, "203.0.113.7": 0, "10.": 3,
			"2001:db8::1": 2, "64:ff9b::192.0.2.1": 1, "192.0.2.0/24": 1} {
			p, err := d.ListOverrides(ctx, rules.OverrideQuery{RuleID: r.ID, Text: text, PageSize: 100,
				Around: match.Options{}.NetworksAround(text)})
			if err != nil || len(p.Overrides) != want {
				t.Errorf("search for %s: got %+v, %v, want %d", text, p.Overrides, err, want)
			}
		}
		rows, _, seq := loaded(t, d, -1)
		want := "{ip:10.0.0.0/8} {ip:10.1.0.0/16} {ip:10.1.2.3} {ip:2001:db8::/32} {ip:192.0.2.0/24} {ip:::/0}"
		if words(rows) != want {
			t.Errorf("nodes get %s", words(rows))
		}
		in.Items, in.Prune = in.Items[:2], true
		got, err := d.ImportOverrides(ctx, ada, in, match.Options{})
		if err != nil || got.Deleted != 4 || got.Unchanged != 2 {
			t.Errorf("pruned: got %+v, %v", got, err)
		}
		want = "-{ip:10.1.2.3} -{ip:2001:db8::/32} -{ip:192.0.2.0/24} -{ip:::/0}"
		if rows, _, _ := loaded(t, d, seq); words(rows) != want {
			t.Errorf("nodes get %s", words(rows))
		}
	})
}
