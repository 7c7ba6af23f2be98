package database

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"sluice/internal/usage"
)

func usageRow(period int64, key string, spent, seen int64) usage.Row {
	return usage.Row{Rule: 7, Period: period, Key: key, Spent: spent, Seen: seen}
}

func TestWriteUsage_OnlyALaterReadingChangesARow(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		writes := []usage.Row{usageRow(100, "{user:a}", 5, 1000), usageRow(100, "{user:a}", 9, 3000),
			usageRow(100, "{user:a}", 7, 2000), usageRow(100, "{user:a}", 3, 3000)}
		for i, order := range [][]int{{0, 1, 2, 3}, {1, 0, 2, 3}, {1, 3, 1, 2, 0, 2}, {2, 1, 1, 0, 3}} {
			period := int64(100 + i)
			for _, k := range order {
				row := writes[k]
				row.Period = period
				if err := d.WriteUsage(t.Context(), []usage.Row{row}, false); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := d.Usage(t.Context(), usage.Query{Rule: 7, Period: period, Most: 10})
			if err != nil || len(rows) != 1 || rows[0].Spent != 9 || rows[0].Seen != 3000 {
				t.Errorf("in the order %v: %+v, %v", order, rows, err)
			}
		}
		// Floored counts never become lower, and are seen all the same.
		for _, row := range []usage.Row{usageRow(100, "{user:a}", 2, 4000), usageRow(100, "{user:a}", 11, 5000)} {
			if err := d.WriteUsage(t.Context(), []usage.Row{row}, true); err != nil {
				t.Fatal(err)
			}
			rows, err := d.Usage(t.Context(), usage.Query{Rule: 7, Period: 100, Key: "{user:a}", Most: 1})
			if err != nil || rows[0].Spent != max(9, row.Spent) || rows[0].Seen != row.Seen {
				t.Errorf("floored: %+v, %v", rows, err)
			}
		}
	})
}

func TestUsage_PagesPeriodsTotalsAndCleaning(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var all []usage.Row
		for period := int64(1); period <= 4; period++ {
			for i := range int64(usageRows) {
				all = append(all, usage.Row{Rule: 7, Period: period, Key: fmt.Sprintf("{user:%03d}", i), Spent: i, Seen: 5})
			}
		}
		other := all[0]
		other.Rule = 9
		for part := range slices.Chunk(append(all, other), usage.WriteBatch) {
			if err := d.WriteUsage(t.Context(), part, false); err != nil {
				t.Fatal(err)
			}
		}
		var paged []usage.Row
		for after := ""; ; {
			rows, err := d.Usage(t.Context(), usage.Query{Rule: 7, Period: 2, After: after, Most: 130})
			if err != nil {
				t.Fatal(err)
			}
			if paged = append(paged, rows...); len(rows) == 0 {
				break
			}
			after = rows[len(rows)-1].Key
		}
		if diff := cmp.Diff(all[usageRows:2*usageRows], paged); diff != "" {
			t.Error(diff)
		}
		if periods, err := d.UsagePeriods(t.Context(), 7, 3); err != nil || !slices.Equal(periods, []int64{4, 3, 2}) {
			t.Errorf("periods %v, %v", periods, err)
		}
		totals, err := d.UsageTotals(t.Context(), 7, "", []int64{2})
		sum := int64(usageRows) * (usageRows - 1) / 2
		if err != nil || len(totals) != 1 || totals[0] != (usage.Total{Period: 2, Keys: usageRows, Spent: sum}) {
			t.Errorf("totals %+v, %v", totals, err)
		}
		if totals, err = d.UsageTotals(t.Context(), 7, "{user:003}", []int64{1, 2, 9}); err != nil || len(totals) != 2 {
			t.Errorf("totals of a key %+v, %v", totals, err)
		}
		if ids, err := d.UsageRules(t.Context()); err != nil || !slices.Equal(ids, []int64{7, 9}) {
			t.Errorf("rules %v, %v", ids, err)
		}
		for _, want := range []int64{400, 200, 0} {
			if n, err := d.CleanUsage(t.Context(), 7, 3, 400); err != nil || n != want {
				t.Errorf("%d deleted, %v, want %d", n, err, want)
			}
		}
		if periods, err := d.UsagePeriods(t.Context(), 7, 9); err != nil || !slices.Equal(periods, []int64{4, 3}) {
			t.Errorf("periods %v, %v", periods, err)
		}
	})
}

// usageRows is how many rows a period has in tests.
const usageRows = 300

func TestUsageLost_IsSaidOnlyOfWhatThereIs(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		lost := func(set func(context.Context, int64) error, at, want int64) {
			t.Helper()
			if err := set(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			if at, err := d.UsageLost(t.Context()); err != nil || at != want {
				t.Errorf("lost at %d, %v, want %d", at, err, want)
			}
		}
		lost(d.SetUsageLost, 5, 0)
		if err := d.WriteUsage(t.Context(), []usage.Row{usageRow(1, "{user:a}", 1, 1)}, false); err != nil {
			t.Fatal(err)
		}
		lost(d.SetUsageLost, 5, 5)
		lost(d.ClearUsageLost, 4, 5)
		lost(d.ClearUsageLost, 5, 0)
	})
}

// A page, and the periods of a rule, are ranges of the index, however many keys there are.
func TestUsage_ReadsOneRangeOfTheIndex(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		var plan []string
		err := d.readIn(t.Context(), d.callTimeout, func(tx *gorm.DB) error {
			explain := "EXPLAIN QUERY PLAN "
			if d.dialect == dialectPostgres {
				explain = "EXPLAIN "
				if err := tx.Exec("SET LOCAL enable_seqscan = off").Error; err != nil {
					return err
				}
				if err := tx.Exec("SET LOCAL enable_bitmapscan = off").Error; err != nil {
					return err
				}
			}
			rows, err := tx.Raw(explain +
				"SELECT * FROM usage WHERE rule = 7 AND period = 1 AND key > 'a' ORDER BY key LIMIT 500").
				Rows()
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var id, parent, unused int
				var line string
				if d.dialect == dialectPostgres {
					err = rows.Scan(&line)
				} else {
					err = rows.Scan(&id, &parent, &unused, &line)
				}
				if err != nil {
					return err
				}
				plan = append(plan, line)
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		sqlite := strings.Contains(text, "SEARCH usage USING PRIMARY KEY (rule=? AND period=? AND key>?)")
		postgres := strings.Contains(text, "Index Scan using usage_pkey") && strings.Contains(text, "period = 1") &&
			!strings.Contains(text, "Sort")
		if !sqlite && !postgres {
			t.Errorf("the plan is\n%s", text)
		}
	})
}
