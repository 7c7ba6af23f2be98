//go:build measure

package database

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/internal/testenv"
)

// Size of TestMeasureStats.
const (
	measuredRules = 1000
	measuredDays  = 90
	// The figures before the last closeHours are those of differentRules, copied to all.
	closeHours, differentRules = 6, 100
)

// TestMeasureStats measures what the figures of 1,000 busy rules take on disk after 90 days, written by one process
// and by
// three: in the last hours once a minute, so that there is as much dead or free space as on a node.
//
//	make measure-stats
func TestMeasureStats(t *testing.T) {
	fmt.Fprintln(os.Stdout, "| database | processes | MB in all | table | indexes | rows | dead or free | MB at most |\n"+
		"|---|---|---|---|---|---|---|---|")
	onEach(t, func(t *testing.T, d *DB) {
		measureStats(t, d, 1)
		if d.dialect == dialectSQLite {
			return // an embedded node is alone
		}
		if err := d.write.Exec("TRUNCATE stats, stats_live").Error; err != nil {
			t.Fatal(err)
		}
		measureStats(t, d, 3)
	})
}

func measureStats(t *testing.T, d *DB, processes int64) {
	last := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Unix() / 3600
	first := last - measuredDays*24
	d.callTimeout = time.Minute
	write := func(hour int64, minutes, rules int) {
		for writer := range processes {
			rows := historytest.BusyHour(writer+1, hour, minutes, rules)
			live := make([]liveRow, len(rows))
			for i, r := range rows {
				live[i] = liveRow{Rule: r.Rule, Hour: r.Hour, Writer: r.Writer, Data: r.Data, Tops: r.Tops}
				if minutes%5 != 0 { // tops are written every five minutes
					live[i].Tops = nil
				}
			}
			for some := range slices.Chunk(live, history.MaxWritten) {
				if err := d.writeIn(t.Context(), func(tx *gorm.DB) error { return replaceLive(tx, some) }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fold := func(before int64) {
		for n := 1; n > 0; {
			var err error
			if n, err = d.foldBefore(t.Context(), before, 2000); err != nil {
				t.Fatal(err)
			}
		}
	}
	for hour := first; hour < last-closeHours; hour++ {
		write(hour, 60, differentRules)
		if hour%24 == 0 {
			fold(hour)
			vacuum(t, d)
		}
	}
	fold(last - closeHours)
	for _, kind := range []history.Kind{history.KindMinutes} {
		if _, err := d.CleanStats(t.Context(), kind, last-closeHours-72, 10_000_000); err != nil {
			t.Fatal(err)
		}
	}
	copyStats(t, d)
	largest := sizeOf(t, d).all
	var wal, most int64
	for hour := last - closeHours; hour < last; hour++ {
		for minute := range 60 {
			before := walOf(t, d)
			write(hour, minute+1, measuredRules)
			wal = walOf(t, d) - before
			most = max(most, wal)
			if minute%10 == 9 {
				vacuum(t, d)
			}
		}
		fold(hour - history.FoldAfter)
		largest = max(largest, sizeOf(t, d).all)
	}
	s := sizeOf(t, d)
	mb := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/1e6) }
	fmt.Fprintf(os.Stdout, "| %s | %d | %s | %s | %s | %d | %s | %s | WAL of the last minute %s MB, at most %s\n",
		filepath.Base(t.Name()), processes, mb(s.all), mb(s.table), mb(s.indexes), s.rows, s.unused, mb(largest), mb(wal),
		mb(most))
}

// walOf is the position in the log of Postgres, in bytes.
func walOf(t *testing.T, d *DB) (n int64) {
	if d.dialect == dialectSQLite {
		return 0
	}
	if err := d.write.Raw("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").Scan(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// copyStats copies the figures of differentRules to all rules, in the order in which they are written.
func copyStats(t *testing.T, d *DB) {
	var copies []string
	for n := range measuredRules/differentRules - 1 {
		copies = append(copies, fmt.Sprintf("SELECT '%d' AS n", n+1))
	}
	// The third digit from the end of a name is 0 so far.
	name := "substr(s.rule, 1, length(s.rule) - 3) || c.n || substr(s.rule, length(s.rule) - 1)"
	if err := d.write.Exec("INSERT INTO stats SELECT s.kind, " + name + ", s.period, s.data, s.tops FROM stats s, (" +
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
		"JOIN pg_class c ON c.oid = s.relid WHERE s.relname IN ('stats', 'stats_live') " +
		"ORDER BY 1 DESC LIMIT 1").Scan(&due).Error; err != nil {
		t.Fatal(err)
	}
	if due {
		if err := d.write.Exec("VACUUM ANALYZE stats, stats_live").Error; err != nil {
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
	s.rows = one("SELECT (SELECT count(*) FROM stats) + (SELECT count(*) FROM stats_live)")
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
	s.all, s.table = one("SELECT pg_total_relation_size('stats') + pg_total_relation_size('stats_live')"),
		one("SELECT pg_table_size('stats') + pg_table_size('stats_live')")
	s.indexes = s.all - s.table
	s.unused = fmt.Sprintf("%d rows dead", one("SELECT sum(n_dead_tup) FROM pg_stat_user_tables "+
		"WHERE relname IN ('stats', 'stats_live')"))
	return s
}

// TestMeasureWriters measures what 20 nodes with 5,000 active rules each write to Postgres in a minute: the time
// that the
// statements take, one after the other, and what they add to its log.
//
//	make measure-stats
func TestMeasureWriters(t *testing.T) {
	const writers, active = 20, 5000
	d := open(t, testenv.PrivatePostgres(t).DSN("postgres"))
	d.callTimeout = time.Minute
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	hour, err := d.statsHour(d.read)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stdout,
		"| minute of the hour | rows | statements | s | rows a second | WAL, MB |\n|---|---|---|---|---|---|")
	for _, minute := range []int{1, 2, 30, 59} {
		rows := historytest.BusyHour(1, hour, minute, active)
		before, begin, statements, written := walOf(t, d), time.Now(), 0, 0
		for writer := range int64(writers) {
			for some := range slices.Chunk(rows, history.MaxWritten) {
				for i := range some {
					if some[i].Writer = writer + 1; i%5 != minute%5 { // tops are written every five minutes
						some[i].Tops = nil
					}
				}
				if _, err := d.WriteStats(t.Context(), some); err != nil {
					t.Fatal(err)
				}
				statements, written = statements+1, written+len(some)
			}
		}
		took := time.Since(begin).Seconds()
		fmt.Fprintf(os.Stdout, "| %d | %d | %d | %.1f | %.0f | %.0f |\n", minute, written, statements, took,
			float64(written)/took, float64(walOf(t, d)-before)/1e6)
	}
}
