//go:build measure

package database

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
)

// Size of TestMeasureStats.
const (
	measuredRules = 1000
	measuredDays  = 90
	// The figures before the last closeHours are those of differentRules, copied to all.
	closeHours, differentRules = 9, 100
)

// TestMeasureStats measures what the figures of 1,000 busy rules take on disk after 90 days, written by the real
// Writer: in the last hours once a minute, so that there is as much dead or free space as on a node.
//
//	make measure-stats
func TestMeasureStats(t *testing.T) {
	fmt.Fprintln(os.Stdout, "| database | MB in all | table | indexes | rows | dead or free | MB at most |\n"+
		"|---|---|---|---|---|---|---|")
	onEach(t, func(t *testing.T, d *DB) {
		end := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		now := end.Add(-measuredDays * history.Day)
		d.callTimeout = time.Minute
		write := func(n int, until time.Time, step time.Duration, after func()) {
			w := history.NewWriter(history.WriterOptions{Recent: historytest.NewBusy(n), Store: d, Node: "a",
				Keep: measuredDays * history.Day, Now: func() time.Time { return now.Add(20 * time.Second) }})
			for now.Before(until) {
				now = now.Add(step)
				w.Round(t.Context())
				after()
			}
		}
		write(differentRules, end.Add(-closeHours*time.Hour), closeHours*time.Hour, func() { vacuum(t, d) })
		copyStats(t, d)
		largest := sizeOf(t, d).all
		write(measuredRules, end, time.Minute, func() {
			if now.Minute()%10 == 0 {
				vacuum(t, d)
			}
			if now.Minute() == 59 {
				largest = max(largest, sizeOf(t, d).all)
				t.Logf("%s: %d MB", now.Format(time.DateTime), sizeOf(t, d).all/1e6)
			}
		})
		written, err := d.WrittenStats(t.Context())
		if err != nil || now.Sub(written) > 3*time.Minute {
			t.Fatalf("written until %s, %v", written, err)
		}
		s := sizeOf(t, d)
		mb := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/1e6) }
		fmt.Fprintf(os.Stdout, "| %s | %s | %s | %s | %d | %s | %s |\n", filepath.Base(t.Name()), mb(s.all), mb(s.table),
			mb(s.indexes), s.rows, s.unused, mb(largest))
	})
}

// copyStats copies the figures of differentRules to all rules, in the order in which they are written.
func copyStats(t *testing.T, d *DB) {
	var copies []string
	for n := range measuredRules/differentRules - 1 {
		copies = append(copies, fmt.Sprintf("SELECT '%d' AS n", n+1))
	}
	// The third digit from the end of a name is 0 so far.
	name := "substr(s.rule, 1, length(s.rule) - 3) || c.n || substr(s.rule, length(s.rule) - 1)"
	if err := d.write.Exec("INSERT INTO stats SELECT s.kind, " + name + ", s.period, s.data FROM stats s, (" +
		strings.Join(copies, " UNION ALL ") + ") c WHERE s.rule LIKE '" + historytest.Name(0)[:8] +
		"%' ORDER BY s.period, s.kind, s.rule, c.n").Error; err != nil {
		t.Fatal(err)
	}
	vacuum(t, d)
	if d.dialect == dialectSQLite { // one transaction of that size leaves a log of that size
		if err := d.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)").Error; err != nil {
			t.Fatal(err)
		}
	}
}

// vacuum does what autovacuum does, which the servers of tests do not have: it looks every ten minutes, and cleans when
// as many rows are dead as the migrations say.
func vacuum(t *testing.T, d *DB) {
	if d.dialect == dialectSQLite {
		return
	}
	var due bool
	if err := d.write.Raw("SELECT n_dead_tup > 1000 + 0.02 * greatest(reltuples, 0) FROM pg_stat_user_tables s " +
		"JOIN pg_class c ON c.oid = s.relid WHERE s.relname = 'stats'").Scan(&due).Error; err != nil {
		t.Fatal(err)
	}
	if due {
		if err := d.write.Exec("VACUUM ANALYZE stats").Error; err != nil {
			t.Fatal(err)
		}
	}
}

// size is what the table takes, in bytes.
type size struct {
	all, table, indexes, rows int64
	unused                    string
}

func sizeOf(t *testing.T, d *DB) (s size) {
	one := func(sql string) (n int64) {
		if err := d.write.Raw(sql).Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.rows = one("SELECT count(*) FROM stats")
	if d.dialect == dialectSQLite {
		page := one("SELECT page_size FROM pragma_page_size")
		var file struct{ File string }
		if err := d.write.Raw("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file).Error; err != nil {
			t.Fatal(err)
		}
		for _, side := range []string{"", "-wal", "-shm"} {
			if info, err := os.Stat(file.File + side); err == nil {
				s.all += info.Size()
			}
		}
		free := one("SELECT freelist_count FROM pragma_freelist_count") * page
		s.unused = fmt.Sprintf("%.0f MB free pages", float64(free)/1e6)
		s.table = s.all
		return s
	}
	s.all, s.table = one("SELECT pg_total_relation_size('stats')"), one("SELECT pg_table_size('stats')")
	s.indexes = s.all - s.table
	s.unused = fmt.Sprintf("%d rows dead", one("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'stats'"))
	return s
}
