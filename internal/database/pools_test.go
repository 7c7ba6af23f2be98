package database

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

func samplePool(name string) rules.Pool {
	p := rules.NewPool()
	p.Name, p.Description, p.Limit, p.WindowMS = name, "what it is for", 100, 60_000
	return p
}

func mustPool(t testing.TB, d *DB, name string) rules.Pool {
	t.Helper()
	p, err := d.Pools().Create(t.Context(), ada, samplePool(name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func inPool(name, pool string) rules.Rule {
	r := sample(name)
	r.Pool, r.Priority = &pool, ptr("low")
	return r
}

// A pool's life: every edit counts as an edit of the rules and leaves an entry.
func TestPools_LiveAsRulesDo(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		shop := mustPool(t, d, "shop")
		mustPool(t, d, "bar")
		if shop.Version != 1 || shop.CreatedAt.IsZero() || mustVersions(t, d).Rules != 2 {
			t.Errorf("got %+v", shop)
		}
		if _, err := d.Pools().Create(ctx, ada, samplePool("shop")); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("a second one of the name: %v", err)
		}
		edit := shop
		edit.Limit = 7
		got, err := d.Pools().Update(ctx, ada, edit, 1)
		if err != nil || got.Version != 2 || got.Limit != 7 || !got.CreatedAt.Equal(shop.CreatedAt) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := d.Pools().Update(ctx, ada, edit, 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if read, err := d.Pools().Get(ctx, "shop"); err != nil || cmp.Diff(got, read) != "" {
			t.Errorf("read back %+v, %v", read, err)
		}
		for _, name := range []string{"nobody", "\x00", ""} {
			if _, err := d.Pools().Get(ctx, name); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("get %q: %v", name, err)
			}
			if err := d.Pools().Delete(ctx, ada, name, 0); !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("delete %q: %v", name, err)
			}
		}
		src, err := d.LoadRules(ctx)
		if err != nil || len(src.Pools) != 2 || src.Pools[0].Name != "bar" || src.Version != 3 {
			t.Errorf("loaded %+v, %v", src, err)
		}
		if err := d.Pools().Delete(ctx, ada, "shop", 2); err != nil {
			t.Error(err)
		}
		audit, err := d.ListAudit(ctx, audit.Query{SubjectKind: "pool"})
		if err != nil || len(audit) != 4 || audit[0].Action != "delete" || audit[0].SubjectName != "shop" ||
			audit[1].Action != "update" {
			t.Errorf("audit %+v, %v", audit, err)
		}
	})
}

func TestPools_StayWhileRulesNameThem(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		var invalid *field.ValidationError
		if _, err := d.CreateRule(ctx, ada, inPool("a", "shop")); !errors.As(err, &invalid) ||
			invalid.Fields[0].Field != "pool" {
			t.Errorf("a rule of no pool: %v", err)
		}
		mustPool(t, d, "shop")
		a := mustCreate(t, d, inPool("a", "shop"))
		if err := d.Pools().Delete(ctx, ada, "shop", 0); !errors.Is(err, rules.ErrPoolUsed) {
			t.Errorf("delete while used: %v", err)
		}
		a.Pool = ptr("other")
		if _, err := d.UpdateRule(ctx, ada, a, 0); !errors.As(err, &invalid) {
			t.Errorf("to another that is not there: %v", err)
		}
		if err := d.DeleteRule(ctx, ada, a.ID, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.Pools().Delete(ctx, ada, "shop", 0); err != nil {
			t.Errorf("delete when free: %v", err)
		}
		// The rule cannot come back into a pool that is gone.
		b := mustCreate(t, d, sample("b"))
		mustPool(t, d, "shop")
		b.Pool = ptr("shop")
		if _, err := d.UpdateRule(ctx, ada, b, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RollbackRule(ctx, ada, b.ID, 1, 2); err != nil {
			t.Fatal(err)
		}
		if err := d.Pools().Delete(ctx, ada, "shop", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RollbackRule(ctx, ada, b.ID, 2, 3); !errors.As(err, &invalid) {
			t.Errorf("rollback into a pool that is gone: %v", err)
		}
	})
}

// One file may make a pool with the rules in it, and another take both away.
func TestApplyPlan_PoolsComeBeforeTheirRulesAndGoAfterThem(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		wanted := rules.File{Pools: []rules.Pool{samplePool("shop")}, Rules: []rules.Rule{inPool("a", "shop")}}
		if err := d.ApplyPlan(ctx, ada, rules.MakeFilePlan(rules.File{}, wanted, true)); err != nil {
			t.Fatal(err)
		}
		src, err := d.LoadAllRules(ctx)
		if err != nil || len(src.Pools) != 1 || len(src.Rules) != 1 {
			t.Fatalf("got %+v, %v", src, err)
		}
		current := rules.File{Pools: src.Pools, Rules: src.Rules}
		if p := rules.MakeFilePlan(current, wanted, true); !p.Empty() {
			t.Errorf("applying it again would %s", p.String())
		}
		bad := rules.MakeFilePlan(current, rules.File{Pools: []rules.Pool{}, Rules: wanted.Rules}, true)
		if err := d.ApplyPlan(ctx, ada, bad); !errors.Is(err, rules.ErrPoolUsed) {
			t.Errorf("taking away a pool in use: %v", err)
		}
		stale := rules.MakeFilePlan(current, rules.File{Pools: []rules.Pool{samplePool("shop")}}, false)
		stale.Pools.Update = []rules.PoolEdit{{Old: rules.Pool{Name: "shop", Version: 9}, New: samplePool("shop")}}
		if err := d.ApplyPlan(ctx, ada, stale); !errors.Is(err, rules.ErrStale) {
			t.Errorf("a pool that has changed since: %v", err)
		}
		if err := d.ApplyPlan(ctx, ada, rules.MakeFilePlan(current, rules.File{Pools: []rules.Pool{}}, true)); err != nil {
			t.Fatal(err)
		}
		if src, err := d.LoadAllRules(ctx); err != nil || len(src.Pools)+len(src.Rules) != 0 || src.Version != 2 {
			t.Errorf("left %+v, %v", src, err)
		}
	})
}

func TestUpdatePool_ThatChangesNothingWritesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		p := mustPool(t, d, "p")
		before := fingerprint(t, d)
		for _, version := range []int64{0, p.Version} {
			got, err := d.Pools().Update(t.Context(), ada, p, version)
			if diff := cmp.Diff(p, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
		if _, err := d.Pools().Update(t.Context(), ada, p, p.Version+1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("a stale version: %v", err)
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// Deleting a pool looks its rules up by an index, however many rules there are.
func TestPools_RulesOfOneAreFoundByAnIndex(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var plan []map[string]any
		err := d.write.Transaction(func(tx *gorm.DB) error {
			explain := "EXPLAIN QUERY PLAN "
			if d.dialect == dialectPostgres {
				explain = "EXPLAIN "
				if err := tx.Exec("SET LOCAL enable_seqscan = off").Error; err != nil { // the table is small
					return err
				}
			}
			return tx.Raw(explain + "SELECT count(*) FROM rules WHERE policies ->> 'pool' = 'shop'").Scan(&plan).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(plan), "rules_policies_pool") {
			t.Errorf("no index is used: %v", plan)
		}
	})
}
