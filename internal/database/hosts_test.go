package database

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
)

// hosted returns rules that builds without hosts would misread.
func hosted() []rules.Rule {
	byHost, byScope, byWhen := sample("by-host"), sample("by-scope"), sample("by-when")
	byHost.Host, byHost.When = ptr("*.example.com"), ptr(`user != "<a>"`)
	byScope.Scope = "user+host"
	byWhen.When = ptr(`cidr(ip, "10.0.0.0/8") || host matches "^a"`)
	return []rules.Rule{byHost, byScope, byWhen}
}

func TestHosts_AreStored(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		for _, r := range hosted() {
			created := mustCreate(t, d, r)
			want := r.Clone()
			want.Normalize()
			if changes := rules.Diff(&want, &created); len(changes) > 0 {
				t.Errorf("created: %+v", changes)
			}
			if read, err := d.GetRule(ctx, created.ID); err != nil || cmp.Diff(created, read) != "" {
				t.Errorf("read back %v\n%s", err, cmp.Diff(created, read))
			}
			plain := created.Clone()
			plain.Scope, plain.Host, plain.When = "user", nil, ptr("weight > 1")
			edited, err := d.UpdateRule(ctx, ada, plain, 1)
			if err != nil || edited.Scope != "user" || edited.Host != nil || *edited.When != "weight > 1" {
				t.Errorf("edited: %+v, %v", edited, err)
			}
			if read, err := d.GetRule(ctx, created.ID); err != nil || cmp.Diff(edited, read) != "" {
				t.Errorf("the edit reads back %v\n%s", err, cmp.Diff(edited, read))
			}
			back, err := d.RollbackRule(ctx, ada, created.ID, 1, 2)
			if changes := rules.Diff(&created, &back); err != nil || len(changes) > 0 {
				t.Errorf("rolled back: %+v, %v", changes, err)
			}
			history, err := d.RuleHistory(ctx, created.ID, 10, 0)
			if err != nil || len(history) != 3 || cmp.Diff(back, history[0].Rule) != "" {
				t.Errorf("history: %+v, %v", history, err)
			}
		}
	})
}

func TestHosts_AreFiltered(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		for _, r := range append(hosted(), sample("plain")) {
			mustCreate(t, d, r)
		}
		for _, tt := range []struct{ name, value, want string }{
			{"host", "*.Example.com", "by-host"}, {"scope", "user+host", "by-scope"},
		} {
			page, err := d.ListRules(t.Context(), rules.Query{Equal: map[string]string{tt.name: tt.value}})
			if err != nil || len(page.Rules) != 1 || page.Rules[0].Name != tt.want {
				t.Errorf("%s %s: %+v, %v", tt.name, tt.value, page.Rules, err)
			}
		}
		idna := sample("idna")
		idna.Host = ptr("xn--bcher-kva.example")
		mustCreate(t, d, idna)
		for text, want := range map[string]string{
			".EXAMPLE.com": "by-host", "*.example": "by-host", "bücher.example": "idna", "e%m": "", "example_com": "",
		} {
			page, err := d.ListRules(t.Context(), rules.Query{Text: text})
			var got []string
			for _, r := range page.Rules {
				got = append(got, r.Name)
				if q := (&rules.Query{Text: text}); !q.Selects(&r) {
					t.Errorf("%s: the catalog does not select %s", text, r.Name)
				}
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("text %s: got %v, want %s, %v", text, got, want, err)
			}
		}
		page, err := d.ListRules(t.Context(), rules.Query{Equal: map[string]string{"scope": sample("").Scope}})
		if err != nil || len(page.Rules) != 4 {
			t.Errorf("of the scope of four rules: %+v, %v", page.Rules, err)
		}
	})
}

// Patterns count wherever the condition is stored.
func TestHosts_PatternsOfTheirConditionsCount(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := sample("r")
		r.When = ptr(`host matches "^a"`)
		mustCreate(t, d, r)
		var conditions []string
		if err := d.read.Model(&ruleRow{}).Pluck("policies ->> 'when'", &conditions).Error; err != nil ||
			conditions[0] != *r.When {
			t.Errorf("got %q, %v", conditions, err)
		}
	})
}
