package database

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"sluice/internal/usage"
)

// BenchmarkUsage measures what people ask for of a period with 100,000 keys, or SLUICE_BENCH_KEYS.
func BenchmarkUsage(b *testing.B) {
	keys := 100_000
	if n, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_KEYS")); err == nil {
		keys = n
	}
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			d := open(b, kind.dsn(b))
			if err := d.write.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				INSERT INTO usage (rule, period, key, spent, seen) SELECT 7, 100, '{user:' || i || '}', 1, 1 FROM n`,
				keys-1).Error; err != nil {
				b.Fatal(err)
			}
			if err := d.write.Exec("ANALYZE").Error; err != nil { // as Postgres does by itself after many changes
				b.Fatal(err)
			}
			for _, page := range []struct{ name, after string }{{"first page", ""}, {"page in the middle",
				fmt.Sprintf("{user:%d}", keys/2)}} {
				b.Run(page.name, func(b *testing.B) {
					for b.Loop() {
						rows, err := d.Usage(b.Context(), usage.Query{Rule: 7, Period: 100, After: page.after, Most: 500})
						if err != nil || len(rows) != 500 {
							b.Fatalf("%d rows, %v", len(rows), err)
						}
					}
				})
			}
			b.Run("sum of the period", func(b *testing.B) {
				for b.Loop() {
					totals, err := d.UsageTotals(b.Context(), 7, "", []int64{100})
					if err != nil || len(totals) != 1 || totals[0].Keys != int64(keys) {
						b.Fatalf("%+v, %v", totals, err)
					}
				}
			})
		})
	}
}
