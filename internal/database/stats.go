package database

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/history"
	"sluice/rules"
)

// liveRow is a row of stats_live.
type liveRow struct {
	Rule   string `gorm:"column:rule;primaryKey"`
	Hour   int64  `gorm:"column:hour;primaryKey"`
	Writer int64  `gorm:"column:writer;primaryKey"`
	Data   []byte `gorm:"column:data"`
	Tops   []byte `gorm:"column:tops"`
}

// TableName implements gorm's Tabler.
func (liveRow) TableName() string { return "stats_live" }

// statsRow is a row of stats.
type statsRow struct {
	Kind   history.Kind `gorm:"column:kind;primaryKey"`
	Rule   string       `gorm:"column:rule;primaryKey"`
	Period int64        `gorm:"column:period;primaryKey"`
	Data   []byte       `gorm:"column:data"`
	Tops   []byte       `gorm:"column:tops"`
}

// TableName implements gorm's Tabler.
func (statsRow) TableName() string { return "stats" }

const (
	// statsBatch is the number of rows in one statement.
	statsBatch = 500
	// statsTimeout bounds one call.
	statsTimeout = 15 * time.Second
	// foldLock is the Postgres advisory lock under which one node at a time adds up figures.
	foldLock = 0x736c_7569_6366_6f6c
)

var _ history.Store = (*DB)(nil)

// nowMS is the clock of the database in SQL, in ms since the epoch.
func (d *DB) nowMS() string {
	if d.dialect == dialectSQLite {
		return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
	}
	return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
}

// statsHour is the number of the present hour by the clock of the database.
func (d *DB) statsHour(tx *gorm.DB) (hour int64, err error) {
	err = tx.Raw("SELECT " + d.nowMS()).Scan(&hour).Error
	return hour / time.Hour.Milliseconds(), err
}

// WriteStats implements history.Store.
func (d *DB) WriteStats(ctx context.Context, rows []history.LiveRow) (leftOut int, err error) {
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		hour, err := d.statsHour(tx)
		if err != nil {
			return err
		}
		some := make([]liveRow, 0, len(rows))
		for _, r := range rows {
			if r.Hour >= hour-1 && r.Hour <= hour+1 {
				some = append(some, liveRow{Rule: r.Rule, Hour: r.Hour, Writer: r.Writer, Data: r.Data, Tops: r.Tops})
			}
		}
		leftOut = len(rows) - len(some)
		if err := replaceLive(tx, some); err != nil {
			return err
		}
		// If the process did not run for hours in between, the rows may have been added up before they were replaced.
		after, err := d.statsHour(tx)
		if err == nil && after > hour+1 {
			err = fmt.Errorf("%w: hours passed during a write", rules.ErrUnavailable)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return leftOut, nil
}

// WritePastStats stores rows of any hour, as if they came from processes that ended long ago: sluice demo begins with a
// history. FoldStats adds up rows that are old enough.
func (d *DB) WritePastStats(ctx context.Context, rows []history.LiveRow) error {
	some := make([]liveRow, len(rows))
	for i, r := range rows {
		some[i] = liveRow{Rule: r.Rule, Hour: r.Hour, Writer: r.Writer, Data: r.Data, Tops: r.Tops}
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		for batch := range slices.Chunk(some, statsBatch) {
			if err := replaceLive(tx, batch); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceLive stores rows and replaces earlier ones. A row without tops keeps the stored tops.
func replaceLive(tx *gorm.DB, rows []liveRow) error {
	if len(rows) == 0 {
		return nil
	}
	return tx.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "rule"}, {Name: "hour"}, {Name: "writer"}},
		DoUpdates: clause.Assignments(map[string]any{"data": gorm.Expr("excluded.data"),
			"tops": gorm.Expr("COALESCE(excluded.tops, stats_live.tops)")}),
	}).Create(rows).Error
}

// ReadStats implements history.Store, in one statement.
func (d *DB) ReadStats(ctx context.Context, names []string, parts []history.Part, columns history.Columns,
	see func(*history.StoredRow)) error {
	var selects []string
	var args []any
	for _, p := range parts {
		data := "data"
		if p.Sums {
			data = fmt.Sprintf("substr(data, 1, %d)", history.SumBytes)
		}
		shown := map[history.Columns]string{history.OnlyData: data + ", NULL", history.OnlyTops: "NULL, tops",
			history.Both: data + ", tops"}[columns]
		of := fmt.Sprintf("SELECT %d AS kind, writer, rule, hour AS period, %s FROM stats_live WHERE hour BETWEEN ? AND ?",
			history.KindLive, shown)
		if p.Kind != history.KindLive {
			of = fmt.Sprintf("SELECT kind, 0, rule, period, %s FROM stats WHERE kind = %d AND period BETWEEN ? AND ?", shown,
				p.Kind)
		}
		args = append(args, p.First, p.Last)
		if columns == history.OnlyTops {
			of += " AND tops IS NOT NULL"
		}
		if names != nil {
			of, args = of+" AND rule IN ?", append(args, names)
		}
		selects = append(selects, of)
	}
	return d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		found, err := tx.Raw(strings.Join(selects, " UNION ALL "), args...).Rows()
		if err != nil {
			return err
		}
		defer func() { _ = found.Close() }() // Err says what Next met
		var r history.StoredRow
		var data, tops sql.RawBytes
		for found.Next() {
			if err := found.Scan(&r.Kind, &r.Writer, &r.Rule, &r.Period, &data, &tops); err != nil {
				return err
			}
			r.Data, r.Tops = data, tops
			see(&r)
		}
		return found.Err()
	})
}

// FoldStats implements history.Store. A read replica folds nothing.
func (d *DB) FoldStats(ctx context.Context, limit int) (int, error) {
	if d.Replica() {
		return 0, nil
	}
	var hour int64
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) (err error) {
		hour, err = d.statsHour(tx)
		return err
	})
	if err != nil {
		return 0, err
	}
	// If the clock of the database jumps ahead and is then corrected, processes still write rows of these hours.
	return d.foldBefore(ctx, min(hour, d.now().Unix()/3600)-history.FoldAfter, limit)
}

// foldBefore adds up rows of hours before one.
func (d *DB) foldBefore(ctx context.Context, before int64, limit int) (n int, err error) {
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		if d.dialect == dialectPostgres {
			var locked bool
			if err := tx.Raw("SELECT pg_try_advisory_xact_lock(?)", foldLock).Scan(&locked).Error; err != nil || !locked {
				return err
			}
		}
		var old []liveRow
		if err := tx.Where("hour < ?", before).Order("hour, rule, writer").Limit(limit).
			Find(&old).Error; err != nil || len(old) == 0 {
			return err
		}
		rows := make([]history.LiveRow, len(old))
		for i, r := range old {
			rows[i] = history.LiveRow{Writer: r.Writer, Rule: r.Rule, Hour: r.Hour, Data: r.Data, Tops: r.Tops}
		}
		sums, err := history.Fold(rows, func(kind history.Kind, rules []string, first, last int64) ([]history.StoredRow,
			error) {
			var found []statsRow
			err := tx.Where("kind = ? AND rule IN ? AND period BETWEEN ? AND ?", kind, rules, first, last).Find(&found).Error
			out := make([]history.StoredRow, len(found))
			for i, r := range found {
				out[i] = history.StoredRow{Kind: r.Kind, Rule: r.Rule, Period: r.Period, Data: r.Data, Tops: r.Tops}
			}
			return out, err
		})
		if err != nil {
			return err
		}
		all := make([]statsRow, len(sums))
		for i, r := range sums {
			all[i] = statsRow{r.Kind, r.Rule, r.Period, r.Data, r.Tops}
		}
		if len(all) > 0 {
			if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(all, statsBatch).Error; err != nil {
				return err
			}
		}
		n = len(old)
		last := &old[n-1]
		return tx.Where("(hour, rule, writer) <= (?, ?, ?)", last.Hour, last.Rule, last.Writer).Delete(&liveRow{}).Error
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// CleanStats implements history.Store. A read replica cleans nothing.
func (d *DB) CleanStats(ctx context.Context, kind history.Kind, before int64, limit int) (n int64, err error) {
	if d.Replica() {
		return 0, nil
	}
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		old := tx.Model(&statsRow{}).Select("rule, period").Where("kind = ? AND period < ?", kind, before).Limit(limit)
		res := tx.Where("kind = ? AND (rule, period) IN (?)", kind, old).Delete(&statsRow{})
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}

// writeIn runs fn in one transaction. It has no actor and changes no version: figures are not rules.
func (d *DB) writeIn(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if err := d.writable(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	err := d.classify(ctx, d.write.WithContext(limited).Transaction(fn))
	if d.dialect == dialectSQLite { // which has one connection that writes
		return busy(limited, err)
	}
	return err
}
