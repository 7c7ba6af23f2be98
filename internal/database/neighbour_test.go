package database

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/rules"
)

// A node of the release before reads and writes the columns of step 7 on the same
// Postgres, and both see the same rules.
func TestOlderNode_SharesTheRulesOfPostgres(t *testing.T) {
	d := open(t, backends[0].dsn(t))
	ctx := t.Context()
	seen := func() []rules.Rule {
		t.Helper()
		got, _, err := loadAllRules(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	alike := func(what string) {
		t.Helper()
		newer := cmpopts.IgnoreFields(rules.Rule{}, "Former") // a column that the older node leaves as it is
		if diff := cmp.Diff(seen(), oldRules(t, d), newer); diff != "" {
			t.Errorf("%s: this build sees (-), the one before (+):\n%s", what, diff)
		}
		if got := byDatabase(t, d); len(got) > 0 {
			t.Errorf("%s: counts as made by hand: %v", what, got)
		}
	}
	content := func(what, name string, want rules.Rule) {
		t.Helper()
		got, err := d.GetRuleByName(ctx, name)
		want.Name = name
		if changes := rules.Diff(&want, &got); err != nil || len(changes) > 0 {
			t.Errorf("%s: %s differs in %+v, %v", what, name, changes, err)
		}
	}
	named := func(prefix string) []rules.Rule {
		list := append(policies(), sample("plain"))
		for i := range list {
			list[i].Name = fmt.Sprintf("%s-%d", prefix, i)
		}
		return list
	}
	mustPool(t, d, "shop")

	oldInsert(t, d, named("old")...)
	alike("the older node creates")
	for i, want := range named("old") {
		content("the older node creates", fmt.Sprintf("old-%d", i), want)
	}
	for _, r := range named("new") {
		mustCreate(t, d, r)
	}
	alike("this one creates")
	if err := d.ApplyPlan(ctx, ada, rules.Plan{Create: named("planned")}); err != nil {
		t.Fatal(err)
	}
	alike("this one imports")

	// Every rule gets the policies of the next one, from either side and back.
	turned := func(list []rules.Rule) []rules.Rule {
		next := make([]rules.Rule, len(list))
		for i := range list {
			next[i] = list[(i+1)%len(list)].Clone()
			next[i].ID, next[i].Name = list[i].ID, list[i].Name
			next[i].Version, next[i].CreatedAt = list[i].Version, list[i].CreatedAt
		}
		return next
	}
	next := turned(seen())
	oldUpdate(t, d, next...)
	alike("the older node edits many")
	for i := range next {
		content("the older node edits many", next[i].Name, next[i])
	}
	var p rules.Plan
	for i, r := range seen() {
		p.Update = append(p.Update, rules.Edit{Old: r, New: turned(next)[i]})
	}
	if err := d.ApplyPlan(ctx, ada, p); err != nil {
		t.Fatal(err)
	}
	alike("this one edits many")

	// A policy that only a newer build knows survives an edit by the older node.
	r := seen()[0]
	if err := d.write.Exec(`BEGIN; UPDATE versions SET version = version + 1 WHERE name = 'rules';
		UPDATE rules SET policies = policies || '{"new": {"after": 3}}'; COMMIT`).Error; err != nil {
		t.Fatal(err)
	}
	later := time.Date(2027, 1, 1, 0, 0, 0, 5_000_000, time.UTC)
	r.When, r.ActiveUntil, r.Limit = ptr("weight > 2"), &later, 99
	oldUpdate(t, d, r)
	alike("the older node edits one")
	content("the older node edits one", r.Name, r)
	var kept int
	err := d.read.Raw(`SELECT count(*) FROM rules WHERE policies -> 'new' = '{"after": 3}'`).Scan(&kept).Error
	if err != nil || kept != len(seen()) {
		t.Errorf("%d of %d rules keep what the older node does not know, %v", kept, len(seen()), err)
	}

	// A pool that a rule of either side names cannot be deleted from the other.
	var users int64
	if err := d.read.Raw("SELECT count(*) FROM rules WHERE pool = 'shop'").Scan(&users).Error; err != nil || users == 0 {
		t.Errorf("the older node finds %d rules of the pool, %v", users, err)
	}
	for _, r := range seen() {
		r.Pool, r.Priority, r.Throttle, r.ElasticPercent = nil, nil, "hard", nil
		if r.Name != "old-0" {
			oldUpdate(t, d, r)
		}
	}
	one := seen()[0]
	one.Pool, one.Priority, one.Throttle, one.ElasticPercent = ptr("shop"), ptr("low"), "elastic", ptr(int64(5))
	oldUpdate(t, d, one)
	if err := d.Pools().Delete(ctx, ada, "shop", 0); err == nil {
		t.Error("a pool that the older node uses is deleted")
	}
	alike("the end")
}

// By hand either side may be written, and the last word is that of policies.
func TestPolicies_WrittenByHandOnPostgres(t *testing.T) {
	d := open(t, backends[0].dsn(t))
	const insert = "INSERT INTO rules (name, scope, algorithm, limit_count, window_ms, created_at, updated_at"
	const values = ") VALUES ('r', 'user', 'gcra', 5, 1000, now(), now()"
	const onConflict = " ON CONFLICT (name) DO UPDATE SET "
	for _, tt := range []struct{ sql, want string }{
		{insert + values + ")", `{}`},
		{
			insert + ", pool, charge_on" + values + ", 'shop', 'report')" + onConflict +
				"pool = excluded.pool, charge_on = excluded.charge_on",
			`{"pool": "shop", "charge_on": "report"}`,
		},
		{
			"UPDATE rules SET charge_on = 'request', active_from = '2026-11-27 01:00:00.5+01'",
			`{"pool": "shop", "active_from": "2026-11-27T00:00:00.500Z"}`,
		},
		{
			`UPDATE rules SET policies = policies - 'active_from' || '{"hot_keys": "sharded", "new": 3}'`,
			`{"new": 3, "pool": "shop", "hot_keys": "sharded"}`,
		},
		{`UPDATE rules SET policies = '{"pool": "other"}', pool = 'third'`, `{"pool": "other"}`},
		{`UPDATE rules SET policies = policies, pool = NULL`, `{}`},
		{
			insert + ", policies" + values + `, '{"priority": "low", "pool": "shop"}')` + onConflict +
				"policies = excluded.policies",
			`{"pool": "shop", "priority": "low"}`,
		},
		{"UPDATE rules SET tiers = '{\"half'", `{"pool": "shop", "tiers": "{\"half", "priority": "low"}`},
		{"UPDATE rules SET tiers = 'null', priority = DEFAULT", `{"pool": "shop"}`},
		{
			"DELETE FROM rules; " + insert + ", policies, pool" + values + `, '{"retry_jitter_ms": 7}', 'shop')`,
			`{"retry_jitter_ms": 7}`,
		},
		{
			"DELETE FROM rules; " + insert + ", defer_bounds, when_expr" + values + `, '{"max_items":1}', 'true')`,
			`{"when": "true", "defer": {"max_items": 1}}`,
		},
	} {
		if err := d.write.Exec("BEGIN; " + tt.sql + "; COMMIT").Error; err != nil {
			t.Fatalf("%s: %v", tt.sql, err)
		}
		var got string
		if err := d.read.Raw("SELECT policies FROM rules").Scan(&got).Error; err != nil || got != tt.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", tt.sql, got, err, tt.want)
		}
		list, _, err := loadAllRules(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, oldRules(t, d)); diff != "" {
			t.Errorf("%s: this build sees (-), the one before (+):\n%s", tt.sql, diff)
		}
	}
	for _, sql := range []string{
		`UPDATE rules SET policies = '{"hot_keys": "warm"}'`, `UPDATE rules SET hot_keys = 'warm'`,
		`UPDATE rules SET policies = '{"elastic_percent": "many"}'`, `UPDATE rules SET policies = NULL`,
	} {
		if err := d.write.Exec(sql).Error; err == nil {
			t.Errorf("%s is stored", sql)
		}
	}
}
