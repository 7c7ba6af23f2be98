package database

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/match"
)

func TestLoadChanges_LeadWhereALoadOfEverythingLeads(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		for _, name := range []string{"a", "b", "c", "d"} {
			mustCreate(t, d, sample(name))
		}
		src, err := d.LoadRules(ctx)
		if err != nil {
			t.Fatal(err)
		}
		set, err := match.CompileSource(src, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		since := Version{N: src.Version, Stamp: src.Stamp}

		edited, off := sample("b"), sample("c")
		edited.ID, edited.Limit = 2, 77
		off.ID, off.IsActive = 3, false
		for _, r := range []rules.Rule{edited, off} {
			if _, err := d.UpdateRule(ctx, ada, r, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.DeleteRule(ctx, ada, 1, 0); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, d, sample("e"))
		if d.dialect == dialectPostgres { // by hand, without and with a new version
			for _, sql := range []string{
				"UPDATE rules SET limit_count = 8 WHERE name = 'd'",
				"BEGIN; UPDATE versions SET version = version + 1 WHERE name = 'rules'; UPDATE rules SET limit_count = 78 WHERE " +
					"id = 2; COMMIT",
			} {
				if err := d.write.Exec(sql).Error; err != nil {
					t.Fatal(err)
				}
			}
		}

		delta, is, ok, err := d.LoadChanges(ctx, since)
		if err != nil || !ok {
			t.Fatalf("ok %v, %v", ok, err)
		}
		if is != present(t, d).Rules {
			t.Errorf("version %v, want %v", is, present(t, d).Rules)
		}
		got, err := set.Apply(delta)
		if err != nil {
			t.Fatal(err)
		}
		if src, err = d.LoadRules(ctx); err != nil {
			t.Fatal(err)
		}
		var have []rules.Rule
		for i := range got.Len() {
			have = append(have, got.At(i).Rule)
		}
		if diff := cmp.Diff(src.Rules, have); diff != "" {
			t.Error(diff)
		}
		for name, from := range map[string]Version{
			"nothing": NoVersion, "another history": {N: since.N, Stamp: "lost"},
			"a version to come": {N: is.N + 1, Stamp: is.Stamp},
		} {
			if _, _, ok, err := d.LoadChanges(ctx, from); ok || err != nil {
				t.Errorf("a node that holds %s gets changes only: %v", name, err)
			}
		}
		if err := d.write.Exec("UPDATE versions SET version = version + ? WHERE name = 'rules'",
			keepVersions).Error; err != nil {
			t.Fatal(err)
		}
		if err := d.CleanHistory(ctx); err != nil {
			t.Fatal(err)
		}
		var stones int64
		if err := d.read.Table("rule_tombstones").Count(&stones).Error; err != nil || stones != 0 {
			t.Errorf("%d tombstones are left, %v", stones, err)
		}
		if _, _, ok, err := d.LoadChanges(ctx, since); ok || err != nil {
			t.Errorf("a node that is too far behind gets changes only: %v", err)
		}
	})
}
