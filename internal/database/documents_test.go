package database

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"sluice/rules"
)

// kindsOfRows are rows of every kind, as step 7 keeps them. Not all are valid:
// people also write them by hand.
func kindsOfRows() []map[string]any {
	all := map[string]any{
		"elastic_percent": 50, "pool": "shop", "priority": "critical",
		"tiers": `{"free":{"limit":2,"burst":3},"staff":{"unlimited":true},"a \u003cb\u003e \"c\"":{"limit":0}}`,
		"schedule": `{"zone":"Europe/Berlin","windows":[{"days":["mon","sun"],"from":"22:00","to":"06:00","percent":0},` +
			`{"from":"09:00","to":"24:00","limit":4,"burst":5}]}`,
		"calendar":    `{"every":"month","zone":"America/New_York","anchor_day":31}`,
		"active_from": "2026-11-27T00:00:00.001Z", "active_until": "2026-11-27T01:00:00.120Z",
		"when_expr": `attributes.plan == "é" && weight > 10`, "charge_on": "report", "over_limit": "defer",
		"defer_bounds": `{"max_items":5,"max_age_ms":1000}`,
		"candidate": `{"algorithm":"gcra","limit":0,"window_ms":500,"burst":1,"align":"calendar",` +
			`"anchor_ms":-5,"buckets":7}`,
		"retry_jitter_ms": 0, "hot_keys": "leased", "hot_raise_percent": 10,
	}
	kinds := []map[string]any{{}, all}
	for _, column := range oldColumns {
		kinds = append(kinds, map[string]any{column: all[column]})
	}
	return append(kinds,
		map[string]any{"active_from": "0001-01-01T00:00:00.000Z", "active_until": "9999-12-31T23:59:59.999Z"},
		map[string]any{"calendar": `{"every":"day","zone":"UTC"}`, "hot_keys": "sharded"},
		map[string]any{"candidate": `{"limit":9007199254740991}`, "retry_jitter_ms": 3_600_000},
		map[string]any{"tiers": `{"staff":{"unlimited":true}}`, "priority": "low"},
		// Text that is JSON, or looks like SQL, or is neither.
		map[string]any{"when_expr": "true", "pool": "null"},
		map[string]any{"when_expr": "\"a\\\\\" != \"😀<&>\u2029\"\n\t// it's $1 ? :x {}", "pool": `it's "odd" \ %41 é`},
		map[string]any{"when_expr": "", "pool": "5"},
		// Damaged by hand.
		map[string]any{"tiers": `{"half`, "schedule": `[]`, "calendar": `7`, "defer_bounds": `"x"`, "candidate": ``},
		map[string]any{"tiers": `{"free":{"limit":"2"}}`, "schedule": `{"windows":{}}`, "calendar": `{}`, "candidate": `{}`},
		map[string]any{"tiers": `{"free":null}`, "schedule": `{}`, "calendar": `true`, "defer_bounds": `{"max_items":-1}`},
	)
}

// insertKinds stores kindsOfRows by hand.
func insertKinds(t *testing.T, d *DB) {
	t.Helper()
	for i, kind := range kindsOfRows() {
		const at = "2026-11-01T00:00:00.000Z"
		columns := []string{"name", "scope", "algorithm", "limit_count", "window_ms", "created_at", "updated_at"}
		values := []any{fmt.Sprintf("kind-%d", i), "user", "fixed_window", 5, 1000, at, at}
		for _, column := range slices.Sorted(maps.Keys(kind)) {
			columns, values = append(columns, column), append(values, kind[column])
		}
		insert := "INSERT INTO rules (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(values)-1) +
			")"
		if err := d.write.Exec(insert, values...).Error; err != nil {
			t.Fatalf("%v: %v", kind, err)
		}
	}
}

// newest is the step that this build reads and writes.
const newest = 16

// toStep brings the schema to a step, without setting anything aside.
func toStep(t *testing.T, d *DB, step int64) {
	t.Helper()
	err := d.migrate(t.Context(), func(ctx context.Context, p *goose.Provider) error {
		if _, err := p.UpTo(ctx, step); err != nil {
			return err
		}
		_, err := p.DownTo(ctx, step)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// traces are what tells nodes and people of a change.
func traces(t *testing.T, d *DB) (found []string) {
	t.Helper()
	err := d.read.Raw(`SELECT name || ' ' || version || ' ' || stamp FROM versions WHERE name <> 'webhooks' UNION ALL
		SELECT 'rule ' || name || ' ' || seq || ' ' || version FROM rules UNION ALL SELECT 'audit ' || count(*) FROM audit_log
		ORDER BY 1`).Scan(&found).Error
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMigrate_PoliciesMoveIntoOneColumnAndBack(t *testing.T) {
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			d := open(t, b.dsn(t))
			ctx := t.Context()
			toStep(t, d, 7)
			insertKinds(t, d)
			want, raw, before := oldRules(t, d), rawOld(t, d), traces(t, d)
			same := func(when string, want []rules.Rule) {
				t.Helper()
				got, _, err := loadAllRules(ctx, d)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: step 7 (-), now (+):\n%s", when, diff)
				}
			}
			toStep(t, d, newest)
			same("up", want)
			if diff := cmp.Diff(before, traces(t, d)); diff != "" {
				t.Errorf("the migration counts as a change (+):\n%s", diff)
			}
			toStep(t, d, 7)
			if diff := cmp.Diff(raw, rawOld(t, d)); diff != "" {
				t.Errorf("before (-), up and down (+):\n%s", diff)
			}
			toStep(t, d, newest)
			same("up again", want)

			// What is written since goes down too.
			mustPool(t, d, "shop")
			for _, r := range policies() {
				r = mustCreate(t, d, r)
				r.Limit++
				if _, err := d.UpdateRule(ctx, ada, r, 0); err != nil {
					t.Fatal(err)
				}
			}
			plain := sample("kind-1")
			plain.ID = want[1].ID
			if _, err := d.UpdateRule(ctx, ada, plain, 0); err != nil {
				t.Fatal(err)
			}
			now, _, err := loadAllRules(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			toStep(t, d, 7)
			for i := range now {
				now[i].Former = nil // goes down with its column
			}
			if diff := cmp.Diff(now, oldRules(t, d)); diff != "" {
				t.Errorf("step 8 (-), down (+):\n%s", diff)
			}
			toStep(t, d, newest)
			same("up once more", now)
		})
	}
}

// What a build of step 7 or before has set aside is put back by this one.
func TestMigrate_RestoresWhatAnOlderBuildSetAside(t *testing.T) {
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			d := open(t, b.dsn(t))
			toStep(t, d, 7)
			insertKinds(t, d)
			for _, name := range []string{"shop", "null", "5"} {
				err := d.write.Exec(`INSERT INTO pools
					(name, limit_count, window_ms, normal_percent, low_percent, created_at, updated_at)
					SELECT ?, 9, 1000, 80, 50, min(created_at), min(created_at) FROM rules`, name).Error
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := d.write.Exec("DELETE FROM rules WHERE pool NOT IN (SELECT name FROM pools)").Error; err != nil {
				t.Fatal(err)
			}
			want := oldRules(t, d)
			for _, statement := range []string{
				"CREATE TABLE parked_rules AS SELECT * FROM rules",
				"ALTER TABLE parked_rules DROP COLUMN seq", // which step 6 has not
				"UPDATE parked_rules SET version = 2",
				`UPDATE rules SET version = 2, is_active = (1 = 0), elastic_percent = NULL, pool = NULL, priority = NULL,
					tiers = NULL, schedule = NULL, calendar = NULL, active_from = NULL, active_until = NULL, when_expr = NULL,
					charge_on = 'request', over_limit = 'deny', defer_bounds = NULL, candidate = NULL, retry_jitter_ms = NULL,
					hot_keys = 'exact', hot_raise_percent = NULL`,
			} {
				if err := d.write.Exec(statement).Error; err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			d.log = slog.New(slog.NewTextHandler(&log, nil))
			if err := d.Migrate(t.Context()); err != nil || !strings.Contains(log.String(), "restored the data") {
				t.Fatalf("%v, logged:\n%s", err, log.String())
			}
			got, _, err := loadAllRules(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, asBefore); diff != "" {
				t.Errorf("set aside (-), put back (+):\n%s", diff)
			}
		})
	}
}

// A build that knows fewer policies leaves the others in place.
func TestUpdateRule_KeepsPoliciesOfANewerBuild(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := sample("r")
		r.Tiers = map[string]rules.TierLimit{"free": {Limit: ptr(int64(2))}}
		r = mustCreate(t, d, r)
		const newer = `{"tiers": {"free": {"limit": 2}}, "new": {"after": {"denials": 3}}}`
		if err := d.write.Exec("UPDATE rules SET policies = ?", newer).Error; err != nil {
			t.Fatal(err)
		}
		for _, next := range []struct {
			edit func()
			want string
		}{
			{func() { r.Tiers, r.When = nil, ptr("weight > 1") }, `{"new":{"after":{"denials":3}},"when":"weight > 1"}`},
			{func() { r.When = nil }, `{"new":{"after":{"denials":3}}}`},
		} {
			next.edit()
			var err error
			if r, err = d.UpdateRule(t.Context(), ada, r, 0); err != nil {
				t.Fatal(err)
			}
			var got string
			if err := d.read.Raw("SELECT policies FROM rules").Scan(&got).Error; err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(next.want, " ", "") {
				t.Errorf("got %s, want %s", got, next.want)
			}
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
