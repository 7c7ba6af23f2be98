package database

import (
	"fmt"
	"testing"

	"sluice/rules"
)

// The size at which listings must still be quick.
const manyRules = 100_000

// BenchmarkManyRules measures what people and reloads ask for with 100,000
// rules on 1,000 routes. Filling takes longer than measuring.
func BenchmarkManyRules(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			d := open(b, kind.dsn(b))
			fill(b, d)
			queries := []struct {
				name string
				q    rules.Query
			}{
				{"first page", rules.Query{}},
				{"last page", rules.Query{AfterID: manyRules - 50}},
				{"by route", rules.Query{Equal: map[string]string{"route": "/r/777"}}},
				{"by scope", rules.Query{Equal: map[string]string{"scope": "ip"}, AfterID: manyRules / 2}},
				{"text found early", rules.Query{Text: "rule-"}},
				{"text found nowhere", rules.Query{Text: "no such thing"}},
				{"shadow, none", rules.Query{Equal: map[string]string{"mode": "shadow"}}},
			}
			for _, bb := range queries {
				b.Run(bb.name, func(b *testing.B) {
					for b.Loop() {
						if _, err := d.ListRules(b.Context(), bb.q); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			pages := []struct {
				name string
				of   rules.Browse
			}{
				{"browse, first page", rules.Browse{}},
				{"browse, page 1,000", rules.Browse{Offset: 50_000}},
				{"browse, last changed", rules.Browse{Sort: "updated_at", Desc: true}},
				{"browse, all but 500", rules.Browse{Query: rules.Query{Except: manyIDs(500)}}},
				{"browse, 500 of them", rules.Browse{Query: rules.Query{IDs: manyIDs(500), PageSize: 500}}},
				{"browse, by text", rules.Browse{Query: rules.Query{Text: "rule-9"}}},
			}
			for _, bb := range pages {
				b.Run(bb.name, func(b *testing.B) {
					for b.Loop() {
						if _, err := d.BrowseRules(b.Context(), bb.of); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			b.Run("versions", func(b *testing.B) {
				for b.Loop() {
					if _, err := d.Versions(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("load", func(b *testing.B) {
				for b.Loop() {
					if _, _, err := loadRules(b.Context(), d); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func fill(b *testing.B, d *DB) {
	b.Helper()
	const step = 10_000
	for n := 0; n < manyRules; n += step {
		var p rules.Plan
		for i := n; i < n+step; i++ {
			r := sample(fmt.Sprintf("rule-%d", i))
			r.Route = ptr(fmt.Sprintf("/r/%d", i%1000))
			if i%10 == 0 {
				r.Scope = "ip"
			}
			p.Create = append(p.Create, r)
		}
		if err := d.ApplyPlan(b.Context(), ada, p); err != nil {
			b.Fatal(err)
		}
	}
}

func manyIDs(n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i*17 + 1)
	}
	return ids
}
