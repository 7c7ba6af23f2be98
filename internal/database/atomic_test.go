package database

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

// breakAudit makes every insert into the audit log fail.
func breakAudit(t *testing.T, d *DB) {
	t.Helper()
	statements := []string{
		`CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'audit log is broken'; END $$ LANGUAGE plpgsql`,
		`CREATE TRIGGER refuse BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse()`,
	}
	if d.dialect == dialectSQLite {
		statements = []string{`CREATE TRIGGER refuse BEFORE INSERT ON audit_log BEGIN SELECT RAISE(ABORT, 'audit log is broken'); END`}
	}
	for _, s := range statements {
		if err := d.write.Exec(s).Error; err != nil {
			t.Fatal(err)
		}
	}
}

func TestChange_WithoutItsAuditEntryDoesNotHappen(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		a := mustCreate(t, d, sample("a"))
		a.Limit++
		if _, err := d.UpdateRule(ctx, ada, a, 0); err != nil {
			t.Fatal(err)
		}
		_, hash := access.NewSecret()
		tok, err := d.CreateToken(ctx, ada, access.Token{Name: "ci", Hash: hash, Scopes: []access.Scope{access.ScopeCheck}})
		if err != nil {
			t.Fatal(err)
		}
		breakAudit(t, d)
		before := fingerprint(t, d)
		edit := a
		edit.Limit = 77
		_, otherHash := access.NewSecret()
		failures := map[string]error{}
		_, failures["create"] = d.CreateRule(ctx, ada, sample("b"))
		_, failures["update"] = d.UpdateRule(ctx, ada, edit, 0)
		_, failures["rollback"] = d.RollbackRule(ctx, ada, a.ID, 1, 0)
		failures["delete"] = d.DeleteRule(ctx, ada, a.ID, 0)
		failures["plan"] = d.ApplyPlan(ctx, ada, rules.Plan{Create: []rules.Rule{sample("c")}})
		_, failures["token create"] = d.CreateToken(ctx, ada, access.Token{Name: "x", Hash: otherHash, Scopes: tok.Scopes})
		failures["token revoke"] = d.RevokeToken(ctx, ada, tok.ID)
		for name, err := range failures {
			if err == nil {
				t.Errorf("%s succeeded without its audit entry", name)
			}
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Errorf("a failed change left a trace:\n%s", diff)
		}
	})
}

func TestUpdate_OneWinnerPerVersion(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			dsn := b.dsn(t)
			nodes := []*DB{open(t, dsn), open(t, dsn)}
			a := mustCreate(t, nodes[0], sample("a"))
			const rounds, editors = 5, 6
			for version := int64(1); version <= rounds; version++ {
				errs := make([]error, editors)
				var wg sync.WaitGroup
				for i := range editors {
					wg.Go(func() {
						edit := a
						edit.Limit = version*100 + int64(i)
						_, errs[i] = nodes[i%2].UpdateRule(context.Background(), ada, edit, version)
					})
				}
				wg.Wait()
				won := 0
				for _, err := range errs {
					if err == nil {
						won++
					} else if !errors.Is(err, rules.ErrStale) {
						t.Errorf("version %d: a loser got %v", version, err)
					}
				}
				if won != 1 {
					t.Errorf("version %d: %d winners", version, won)
				}
			}
			revs, err := nodes[0].RuleHistory(t.Context(), a.ID, 0, 0)
			if err != nil || len(revs) != rounds+1 {
				t.Errorf("history has %d versions, want %d (%v)", len(revs), rounds+1, err)
			}
			if got := mustVersions(t, nodes[1]).Rules; got != rounds+1 {
				t.Errorf("versions: got %d, want %d", got, rounds+1)
			}
		})
	}
}

func TestUpdate_WithoutAVersionAllSucceedInTurn(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a := mustCreate(t, d, sample("a"))
		const editors = 8
		var wg sync.WaitGroup
		for i := range editors {
			wg.Go(func() {
				edit := a
				edit.Limit = int64(100 + i)
				if _, err := d.UpdateRule(context.Background(), ada, edit, 0); err != nil {
					t.Errorf("editor %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		got, err := d.GetRule(t.Context(), a.ID)
		if err != nil || got.Version != editors+1 {
			t.Errorf("version %d after %d edits (%v)", got.Version, editors, err)
		}
	})
}

func TestApplyPlan_AllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		keep, change, drop := mustCreate(t, d, sample("keep")), mustCreate(t, d, sample("change")),
			mustCreate(t, d, sample("drop"))
		wantedChange := sample("change")
		wantedChange.Limit = 50
		plan := rules.MakePlan([]rules.Rule{keep, change, drop}, []rules.Rule{sample("keep"), wantedChange, sample("new")},
			true)

		stale := plan
		stale.Delete = []rules.Rule{drop}
		stale.Delete[0].Version = 9
		taken := plan
		taken.Create = append([]rules.Rule{sample("fresh")}, keep)
		invalid := plan
		invalid.Create = []rules.Rule{sample("fresh"), {Name: "no scope"}}
		gone := plan
		gone.Update = append([]rules.Edit{{Old: rules.Rule{ID: 999, Version: 1}, New: sample("ghost")}}, plan.Update...)
		before := fingerprint(t, d)
		var validation *field.ValidationError
		if err := d.ApplyPlan(ctx, ada, stale); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if err := d.ApplyPlan(ctx, ada, gone); !errors.Is(err, rules.ErrStale) {
			t.Errorf("gone: %v", err)
		}
		if err := d.ApplyPlan(ctx, ada, taken); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("taken: %v", err)
		}
		if err := d.ApplyPlan(ctx, ada, invalid); !errors.As(err, &validation) {
			t.Errorf("invalid: %v", err)
		}
		if err := d.ApplyPlan(ctx, ada, rules.Plan{Unchanged: []rules.Rule{keep}}); err != nil {
			t.Errorf("empty: %v", err)
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Fatalf("a refused plan left a trace:\n%s", diff)
		}

		if err := d.ApplyPlan(ctx, ada, plan); err != nil {
			t.Fatal(err)
		}
		page, err := d.ListRules(ctx, rules.Query{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range page.Rules {
			got = append(got, fmt.Sprintf("%s v%d limit %d", r.Name, r.Version, r.Limit))
		}
		if diff := cmp.Diff([]string{"keep v1 limit 5", "change v2 limit 50", "new v1 limit 5"}, got); diff != "" {
			t.Error(diff)
		}
		if got := mustVersions(t, d).Rules; got != 4 {
			t.Errorf("one plan is one step of the version: got %d, want 4", got)
		}
		if revs, err := d.RuleHistory(ctx, change.ID, 1, 0); err != nil || revs[0].Action != "import" {
			t.Errorf("history of an imported change: %+v, %v", revs, err)
		}
		if err := d.ApplyPlan(ctx, ada, plan); !errors.Is(err, rules.ErrStale) {
			t.Errorf("the same plan again: %v", err)
		}
	})
}
