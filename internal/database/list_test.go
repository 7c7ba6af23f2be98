package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/match"
)

func TestListRules_FiltersAndPages(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		rule := func(name, description, scope, route, method, mode string, active bool) {
			r := rules.Rule{Name: name, Description: description, Scope: scope, Limit: 1, WindowMS: 1, Mode: mode,
				IsActive: active}
			if route != "" {
				r.Route = &route
			}
			if method != "" {
				r.Method = &method
			}
			if !active {
				r.Owner = ptr("payments")
			}
			mustCreate(t, d, r)
		}
		rule("one", "50% of Everything", "user", "/a_b", "GET", "enforce", true)
		rule("two", "half", "ip", "/axb", "POST", "shadow", true)
		rule("three", `back\slash`, "user", "", "", "enforce", false)
		rule("four", "Größe", "global", "/v1/*", "GET", "shadow", false)
		tests := []struct {
			q    rules.Query
			want string
		}{
			{rules.Query{}, "one two three four"},
			{rules.Query{Equal: map[string]string{"scope": "user"}}, "one three"},
			{rules.Query{Equal: map[string]string{"owner": "payments"}}, "three four"},
			{rules.Query{Equal: map[string]string{"owner": "payment"}}, ""},
			{rules.Query{Equal: map[string]string{"owner": "payments", "mode": "shadow"}}, "four"},
			{rules.Query{Equal: map[string]string{"route": "/axb"}}, "two"},
			{rules.Query{Equal: map[string]string{"route": "/%"}}, ""},
			{rules.Query{Equal: map[string]string{"method": "get"}}, "one four"},
			{rules.Query{Equal: map[string]string{"mode": "shadow"}}, "two four"},
			{rules.Query{Active: ptr(true)}, "one two"},
			{rules.Query{Active: ptr(false)}, "three four"},
			{rules.Query{Active: ptr(false), Equal: map[string]string{"scope": "user"}, Text: "hre"}, "three"},
			{rules.Query{Text: "EVERYTHING"}, "one"},
			{rules.Query{Text: "%"}, "one"},
			{rules.Query{Text: "_"}, "one"},
			{rules.Query{Text: "a_b"}, "one"},
			{rules.Query{Text: `\`}, "three"},
			{rules.Query{Text: "röß"}, "four"},
			{rules.Query{Text: "/V1"}, "four"},
			{rules.Query{Text: "'"}, ""},
			{rules.Query{Text: "o"}, "one two four"},
			{rules.Query{Text: "everything ONE  50%"}, "one"},
			{rules.Query{Text: "% _b"}, "one"},
			{rules.Query{Text: "% axb"}, ""},
			{rules.Query{Text: " \t "}, "one two three four"},
			{rules.Query{Text: "o o o o o o o v1 four"}, ""},
			{rules.Query{Text: strings.Repeat("o ", 7) + "V1"}, "four"},
			{rules.Query{Text: "\x00"}, ""},
			{rules.Query{Equal: map[string]string{"scope": "\xff"}}, ""},
			{rules.Query{Text: strings.Repeat("%", 100_000)}, ""},
			{rules.Query{Text: strings.Repeat("_", maxStored)}, ""},
			{rules.Query{PageSize: 2}, "one two +"},
			{rules.Query{PageSize: 2, AfterID: 2}, "three four"},
			{rules.Query{PageSize: 3, AfterID: 1}, "two three four"},
			{rules.Query{PageSize: -1}, "one two three four"},
			{rules.Query{PageSize: 1 << 40}, "one two three four"},
			{rules.Query{AfterID: 1 << 62}, ""},
			{rules.Query{AfterID: -5, PageSize: 1, Equal: map[string]string{"mode": "shadow"}}, "two +"},
		}
		for _, tt := range tests {
			page, err := d.ListRules(t.Context(), tt.q)
			if err != nil {
				t.Errorf("%.80v: %v", tt.q, err)
				continue
			}
			var got []string
			for _, r := range page.Rules {
				got = append(got, r.Name)
				if !tt.q.Selects(&r) {
					t.Errorf("%.80v: the catalog does not select %s", fmt.Sprintf("%+v", tt.q), r.Name)
				}
			}
			if page.More {
				got = append(got, "+")
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("%.80v: got %q, want %q", fmt.Sprintf("%+v", tt.q), got, tt.want)
			}
			if page.Rules == nil {
				t.Errorf("%.80v: nil rules", tt.q)
			}
		}
	})
}

func TestLoadRules_GivesActiveRulesAndTheirVersion(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		if rs, v, err := loadRules(ctx, d); len(rs) != 0 || v != 0 || err != nil {
			t.Errorf("empty: got %v, %d, %v", rs, v, err)
		}
		off := sample("off")
		off.IsActive = false
		a, off, b := mustCreate(t, d, sample("a")), mustCreate(t, d, off), mustCreate(t, d, sample("b"))
		rs, v, err := loadRules(ctx, d)
		if diff := cmp.Diff([]rules.Rule{a, b}, rs); diff != "" || v != 3 || err != nil {
			t.Errorf("version %d, %v:\n%s", v, err, diff)
		}
		all, v, err := loadAllRules(ctx, d)
		if diff := cmp.Diff([]rules.Rule{a, off, b}, all); diff != "" || v != 3 || err != nil {
			t.Errorf("all: version %d, %v:\n%s", v, err, diff)
		}
	})
}

// A writer keeps the limit of every rule equal to the version of the whole; a
// load that mixed two moments would show another limit.
func TestLoadRules_NeverMixesTwoMoments(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		const edits = 25
		for _, name := range []string{"a", "b"} {
			mustCreate(t, d, sample(name))
		}
		stored, v, err := loadRules(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		plan := func() rules.Plan {
			var p rules.Plan
			for i := range stored {
				edit := stored[i]
				edit.Limit = v + 1
				p.Update = append(p.Update, rules.Edit{Old: stored[i], New: edit})
			}
			return p
		}
		if err := d.ApplyPlan(ctx, ada, plan()); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range edits {
				if stored, v, err = loadRules(ctx, d); err != nil {
					t.Errorf("writer: %v", err)
					return
				}
				if err := d.ApplyPlan(ctx, ada, plan()); err != nil {
					t.Errorf("writer: %v", err)
					return
				}
			}
		}()
		for loads := 0; ; loads++ {
			rs, version, err := loadRules(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rs {
				if r.Limit != version {
					t.Fatalf("load %d: rule of version %d in a set of version %d", loads, r.Limit, version)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
}

func TestPoisonedRow_IsListedAndLoadedAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		good, bad := mustCreate(t, d, sample("good")), mustCreate(t, d, sample("bad"))
		if err := d.write.Exec(`UPDATE rules SET route = 'no slash', scope = 'moon phase', anchor_ms = 9223372036854775807 WHERE id = ?`, bad.ID).Error; err != nil {
			t.Fatal(err)
		}
		page, err := d.ListRules(ctx, rules.Query{})
		if err != nil || len(page.Rules) != 2 || page.Rules[1].Scope != "moon phase" {
			t.Errorf("listed: %+v, %v", page, err)
		}
		rs, _, err := loadRules(ctx, d)
		if err != nil || len(rs) != 2 {
			t.Fatalf("loaded: %+v, %v", rs, err)
		}
		if _, err := match.Compile(rs, 1, match.Options{}); err == nil {
			t.Error("the poisoned set compiles")
		}
		// People mend it by writing the rule again.
		bad.Limit = 6
		if _, err := d.UpdateRule(ctx, ada, bad, 0); err != nil {
			t.Fatal(err)
		}
		rs, _, err = loadRules(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := match.Compile(rs, 1, match.Options{}); err != nil || rs[0].ID != good.ID {
			t.Errorf("mended: %v", err)
		}
	})
}

func TestSchema_RefusesWhatNoDecisionCanUse(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a := mustCreate(t, d, sample("a"))
		before := fingerprint(t, d)
		for _, set := range []string{
			"limit_count = -1", "limit_count = 9007199254740992", "window_ms = 0", "window_ms = 'soon'", "algorithm = 'magic'",
			"mode = 'maybe'", "fail_mode = ''", "throttle = 'x'", "version = 0", "name = 'Not A Name'", "name = ''",
			"scope = ''", "is_active = NULL", "created_at = 'yesterday evening'", "buckets = 0",
		} {
			if err := d.write.Exec("UPDATE rules SET "+set+" WHERE id = ?", a.ID).Error; err == nil {
				t.Errorf("SET %s was accepted", set)
			}
		}
		if diff := cmp.Diff(before, fingerprint(t, d)); diff != "" {
			t.Error(diff)
		}
	})
}
