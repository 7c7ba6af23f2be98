package database

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/field"
)

func TestCreateRule_GivesBackWhatIsStored(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		full := sample("full")
		full.Owner = ptr("Zahlungen — 漢字")
		bare := rules.Rule{Name: "bare", Scope: "global", Limit: 1, WindowMS: 1}
		window := rules.Rule{
			Name: "window", Scope: "ip", Algorithm: "fixed_window", Limit: 1 << 50, WindowMS: 315_576_000_000,
			Align: ptr("calendar"), AnchorMS: ptr[int64](-5), Mode: "shadow", FailMode: "local",
			Description: "Zwölf Ängste — 漢字 '; DROP TABLE rules;-- %_\\",
		}
		buckets := rules.Rule{Name: "buckets", Scope: "attr:tenant", Algorithm: "sliding_window_buckets", Limit: 0,
			WindowMS: 100, Buckets: ptr[int64](7), IsActive: true}
		for i, r := range []rules.Rule{full, bare, window, buckets} {
			created := mustCreate(t, d, r)
			want := r
			want.Normalize()
			want.ID, want.Version, want.FailFrom = int64(i+1), 1, ""
			want.CreatedAt, want.UpdatedAt = created.CreatedAt, created.CreatedAt
			if diff := cmp.Diff(want, created); diff != "" {
				t.Errorf("%s: created (-want +got):\n%s", r.Name, diff)
			}
			if created.CreatedAt.IsZero() || created.CreatedAt.Nanosecond()%1_000_000 != 0 {
				t.Errorf("%s: created at %v, want whole milliseconds", r.Name, created.CreatedAt)
			}
			byID, err := d.GetRule(t.Context(), created.ID)
			if diff := cmp.Diff(created, byID); diff != "" || err != nil {
				t.Errorf("%s: read back by id: %v (-want +got):\n%s", r.Name, err, diff)
			}
			byName, err := d.GetRuleByName(t.Context(), r.Name)
			if diff := cmp.Diff(created, byName); diff != "" || err != nil {
				t.Errorf("%s: read back by name: %v (-want +got):\n%s", r.Name, err, diff)
			}
		}
		if got, want := mustVersions(t, d), (counts{Rules: 4}); got != want {
			t.Errorf("versions: got %+v, want %+v", got, want)
		}
	})
}

// What is there already is not written again: same version, no revision, no entry
// in the audit log. A stale version is refused all the same.
func TestUpdateRule_ThatChangesNothingWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a := mustCreate(t, d, sample("a"))
		before := fingerprint(t, d)
		for _, version := range []int64{0, a.Version} {
			got, err := d.UpdateRule(t.Context(), ada, a, version)
			if diff := cmp.Diff(a, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
		if _, err := d.UpdateRule(t.Context(), ada, a, a.Version+1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("a stale version: %v", err)
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// A fail mode that the node filled in is stored with a new rule, and does not replace that of a stored one.
func TestRules_AFailModeThatWasFilledInIsOfNewRulesOnly(t *testing.T) {
	defaults, err := rules.ParseFailDefaults("GET=closed")
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, d *DB) {
		left := rules.Rule{Name: "a", Scope: "user", Method: ptr("GET"), Limit: 1, WindowMS: 1000}
		left.Normalize()
		defaults.Fill(&left)
		a := mustCreate(t, d, left)
		if got, err := d.GetRule(t.Context(), a.ID); err != nil || got.FailMode != rules.FailClosed {
			t.Errorf("created as %q, %v", got.FailMode, err)
		}
		a.FailMode = rules.FailLocal
		if _, err := d.UpdateRule(t.Context(), ada, a, 0); err != nil {
			t.Fatal(err)
		}
		left.ID, left.Limit = a.ID, 2
		got, err := d.UpdateRule(t.Context(), ada, left, 0)
		if err != nil || got.FailMode != rules.FailLocal || got.Limit != 2 {
			t.Errorf("replaced by %+v, %v", got, err)
		}
	})
}

func TestWrites_RefuseWithTheirKindAndChangeNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		a, b := mustCreate(t, d, sample("a")), mustCreate(t, d, sample("b"))
		before := fingerprint(t, d)
		renamed := a
		renamed.Name = b.Name
		bad := a
		bad.Limit, bad.Scope = -1, "nonsense"
		absent := a
		absent.ID = 999
		nobody, unnamed := rules.Actor{}, rules.Actor{Kind: "user"}
		second := func(_ rules.Rule, err error) error { return err }
		tests := []struct {
			name string
			got  error
			want error // nil: a ValidationError
		}{
			{"create a taken name", second(d.CreateRule(ctx, ada, sample("a"))), rules.ErrNameTaken},
			{"create nonsense", second(d.CreateRule(ctx, ada, bad)), nil},
			{"create without actor", second(d.CreateRule(ctx, nobody, sample("c"))), ErrNoActor},
			{"create without actor's name", second(d.CreateRule(ctx, unnamed, sample("c"))), ErrNoActor},
			{"update to a taken name", second(d.UpdateRule(ctx, ada, renamed, 0)), rules.ErrNameTaken},
			{"update to nonsense", second(d.UpdateRule(ctx, ada, bad, 0)), nil},
			{"update an old version", second(d.UpdateRule(ctx, ada, a, 7)), rules.ErrStale},
			{"update the absent", second(d.UpdateRule(ctx, ada, absent, 0)), rules.ErrNotFound},
			{"update the absent with a version", second(d.UpdateRule(ctx, ada, absent, 1)), rules.ErrNotFound},
			{"update without actor", second(d.UpdateRule(ctx, nobody, a, 0)), ErrNoActor},
			{"delete the absent", d.DeleteRule(ctx, ada, 999, 0), rules.ErrNotFound},
			{"delete an old version", d.DeleteRule(ctx, ada, a.ID, 2), rules.ErrStale},
			{"delete without actor", d.DeleteRule(ctx, nobody, a.ID, 0), ErrNoActor},
			{"roll back the absent", second(d.RollbackRule(ctx, ada, 999, 1, 0)), rules.ErrNotFound},
			{"roll back to no version", second(d.RollbackRule(ctx, ada, a.ID, 2, 0)), rules.ErrNotFound},
			{"roll back an old version", second(d.RollbackRule(ctx, ada, a.ID, 1, 2)), rules.ErrStale},
			{"roll back without actor", second(d.RollbackRule(ctx, nobody, a.ID, 1, 0)), ErrNoActor},
			{"plan without actor", d.ApplyPlan(ctx, nobody, rules.Plan{Create: []rules.Rule{sample("c")}}), ErrNoActor},
		}
		for _, tt := range tests {
			var invalid *field.ValidationError
			if tt.want != nil && !errors.Is(tt.got, tt.want) || tt.want == nil && !errors.As(tt.got, &invalid) {
				t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
			}
		}
		if _, err := d.GetRule(ctx, 999); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("get the absent: %v", err)
		}
		for _, name := range []string{"absent", "", "a\x00", "\xff"} {
			if _, err := d.GetRuleByName(ctx, name); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("get %q: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Errorf("a refused write left a trace:\n%s", diff)
		}
	})
}

// fingerprint is the whole content of every table of the database.
func fingerprint(t testing.TB, d *DB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range []string{"rules", "rule_revisions", "audit_log", "tokens", "versions"} {
		var rows []map[string]any
		if err := d.read.Table(table).Order("1, 2").Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		all[table] = []string{}
		for _, row := range rows {
			all[table] = append(all[table], fmt.Sprint(row))
		}
	}
	return all
}
