package database

import (
	"fmt"
	"testing"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
	"sluice/rules/rulefile"
)

// manyOverrides imports n overrides of a new rule, files at the bound.
func manyOverrides(b *testing.B, d *DB, rule string, n int) {
	b.Helper()
	r := mustCreate(b, d, sample(rule))
	for from := 0; from < n; from += rulefile.MaxOverrideLines {
		items := make([]rules.ImportedOverride, min(rulefile.MaxOverrideLines, n-from))
		for i := range items {
			items[i] = rules.ImportedOverride{Line: i + 2,
				Override: rules.Override{Key: fmt.Sprintf("user:customer-%07d", from+i), Limit: ptr(int64(i % 1000))}}
		}
		if _, err := d.ImportOverrides(b.Context(), ada, rules.OverrideImport{RuleID: r.ID, Items: items},
			match.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadOverrides is what a node does at start, and after one edit.
func BenchmarkLoadOverrides(b *testing.B) {
	const n = 50_000
	for _, backend := range backends {
		d := openFor(b, backend.dsn(b), patience)
		b.Run(backend.name+"/import", func(b *testing.B) {
			i := 0
			for b.Loop() {
				manyOverrides(b, d, fmt.Sprintf("rule-%d", i), n)
				i++
			}
		})
		for _, since := range []int64{-1, 1} {
			b.Run(fmt.Sprintf("%s/since=%d", backend.name, since), func(b *testing.B) {
				for b.Loop() {
					e := override.New().Edit()
					if _, err := d.LoadOverrides(b.Context(), held(b, d, areaOverrides, since), func(bool) {}, e.Add); err != nil {
						b.Fatal(err)
					}
					if o := e.Done(1, 0); since < 0 && o.Len() < n {
						b.Fatalf("%d loaded", o.Len())
					}
				}
			})
		}
	}
}
