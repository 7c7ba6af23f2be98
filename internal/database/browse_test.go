package database

import (
	"fmt"
	"strings"
	"testing"

	"sluice/rules"
)

func TestBrowseRules_SortsPagesCountsAndNamesEditors(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		for i, name := range []string{"b", "d", "a", "c"} {
			r := sample(name)
			r.Limit = int64(10 - i)
			r.FailMode = []string{"open", "closed"}[i%2]
			r.Owner = []*string{nil, ptr("search"), ptr("billing"), ptr("search")}[i]
			mustCreate(t, d, r)
		}
		tests := []struct {
			name  string
			b     rules.Browse
			want  string
			total int64
		}{
			{"by name", rules.Browse{}, "a b c d", 4},
			{"unknown order is by name", rules.Browse{Sort: "id; DROP TABLE rules"}, "a b c d", 4},
			{"backwards", rules.Browse{Sort: "name", Desc: true}, "d c b a", 4},
			{"by limit", rules.Browse{Sort: "limit"}, "c a d b", 4},
			{"by owner", rules.Browse{Sort: "owner"}, "a c d b", 4},
			{"by owner, backwards", rules.Browse{Sort: "owner", Desc: true}, "c d a b", 4},
			{"by id", rules.Browse{Sort: "id"}, "b d a c", 4},
			{"some", rules.Browse{Query: rules.Query{IDs: []int64{1, 3, 99}}}, "a b", 2},
			{"none", rules.Browse{Query: rules.Query{IDs: []int64{}}}, "", 0},
			{"all but some", rules.Browse{Query: rules.Query{Except: []int64{1, 3, 99}}}, "c d", 2},
			{"text of some", rules.Browse{Query: rules.Query{IDs: []int64{1, 3}, Text: "b"}}, "b", 1},
			{"second page", rules.Browse{Query: rules.Query{PageSize: 2}, Offset: 2}, "c d", 4},
			{"past the end", rules.Browse{Offset: 99}, "", 4},
			{"fail mode", rules.Browse{Query: rules.Query{Equal: map[string]string{"fail_mode": "closed"}}}, "c d", 2},
			{"text", rules.Browse{Query: rules.Query{Text: "b"}}, "b", 1},
			{"text, second page", rules.Browse{Query: rules.Query{Text: "What It IS", PageSize: 3}, Offset: 3, Sort: "limit"},
				"b", 4},
			{"text, past the end", rules.Browse{Query: rules.Query{Text: "charges"}, Offset: 99}, "", 4},
			{"text and fail mode", rules.Browse{Query: rules.Query{Text: "charges",
				Equal: map[string]string{"fail_mode": "open"}}, Desc: true}, "b a", 2},
			{"nothing can hold it", rules.Browse{Query: rules.Query{Text: "\x00"}}, "", 0},
		}
		for _, tt := range tests {
			list, err := d.BrowseRules(t.Context(), tt.b)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			var names []string
			for _, r := range list.Rules {
				names = append(names, r.Name)
				if got := list.Editors[r.ID]; got != ada {
					t.Errorf("%s: %s was changed by %v", tt.name, r.Name, got)
				}
			}
			if got := strings.Join(names, " "); got != tt.want || list.Total != tt.total {
				t.Errorf("%s: got %q of %d, want %q of %d", tt.name, got, list.Total, tt.want, tt.total)
			}
		}
		for _, sort := range rules.SortColumns() {
			if _, err := d.BrowseRules(t.Context(), rules.Browse{Sort: sort}); err != nil || sortColumns[sort] == "" {
				t.Errorf("order %s: %v", sort, err)
			}
		}
	})
}

func TestBrowseRules_EditorIsOfThePresentVersion(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := mustCreate(t, d, sample("charges"))
		r.Limit = 7
		grace := rules.Actor{Kind: "user", Name: "grace"}
		if _, err := d.UpdateRule(t.Context(), grace, r, 0); err != nil {
			t.Fatal(err)
		}
		list, err := d.BrowseRules(t.Context(), rules.Browse{})
		if err != nil || list.Editors[r.ID] != grace {
			t.Errorf("got %v, %v", list.Editors, err)
		}
	})
}

func BenchmarkBrowseRules_LastPageOfMany(b *testing.B) {
	for _, be := range backends {
		b.Run(be.name, func(b *testing.B) {
			d := open(b, be.dsn(b))
			many := make([]rules.Rule, 10_000)
			for i := range many {
				many[i] = sample(fmt.Sprintf("rule-%05d", i))
			}
			if err := d.ApplyPlan(b.Context(), ada, rules.MakePlan(nil, many, false)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := d.BrowseRules(b.Context(), rules.Browse{Offset: len(many) - 50}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
