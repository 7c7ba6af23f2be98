package database

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/history"
)

// statsRow is a row of stats.
type statsRow struct {
	Kind   history.Kind `gorm:"column:kind;primaryKey"`
	Rule   string       `gorm:"column:rule;primaryKey"`
	Period int64        `gorm:"column:period;primaryKey"`
	Data   []byte       `gorm:"column:data"`
}

// TableName implements gorm's Tabler.
func (statsRow) TableName() string { return "stats" }

// writerRow is the row of stats_writer.
type writerRow struct {
	ID        int    `gorm:"column:id;primaryKey"`
	Holder    string `gorm:"column:holder"`
	HeldUntil int64  `gorm:"column:held_until"`
	Written   int64  `gorm:"column:written"`
}

// TableName implements gorm's Tabler.
func (writerRow) TableName() string { return "stats_writer" }

const (
	// statsBatch is the number of rows in one statement.
	statsBatch = 500
	// statsTogether is the number of rows in one transaction: an SQLite file has one writer, and changes of rules must
	// not wait for thousands of rows.
	statsTogether = 2000
	// statsTimeout bounds one call.
	statsTimeout = 15 * time.Second
)

var _ history.Store = (*DB)(nil)

// nowMS is the clock of the database in SQL, in ms since the epoch.
func (d *DB) nowMS() string {
	if d.dialect == dialectSQLite {
		return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
	}
	return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
}

// ClaimStats implements history.Store. No node holds the lease on a read replica.
func (d *DB) ClaimStats(ctx context.Context, node string, lifetime time.Duration) (held bool, written time.Time,
	err error) {
	if d.Replica() {
		written, err = d.WrittenStats(ctx)
		return false, written, err
	}
	var row writerRow
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		res := tx.Model(&writerRow{}).Where("id = 1 AND (holder = ? OR held_until < "+d.nowMS()+")", node).
			Updates(map[string]any{"holder": node, "held_until": gorm.Expr(d.nowMS()+" + ?", lifetime.Milliseconds())})
		if held = res.RowsAffected > 0; res.Error != nil {
			return res.Error
		}
		return tx.Take(&row, 1).Error
	})
	if err != nil {
		return false, time.Time{}, err
	}
	return held, writtenAt(row), nil
}

func writtenAt(row writerRow) time.Time {
	if row.Written == 0 {
		return time.Time{}
	}
	return time.UnixMilli(row.Written).UTC()
}

// errLeaseLost ends a transaction of a node that is not the writer any more.
var errLeaseLost = errors.New("another node writes the figures")

// WriteStats implements history.Store, but for many rows in several transactions. The instant is noted in the last one,
// and rows may be written again, so that a failure in between changes nothing that counts.
func (d *DB) WriteStats(ctx context.Context, node string, rows []history.StoredRow, written time.Time) (bool, error) {
	all := make([]statsRow, len(rows))
	for i, r := range rows {
		all[i] = statsRow(r)
	}
	for {
		some := all[:min(len(all), statsTogether)]
		all = all[len(some):]
		err := d.writeIn(ctx, func(tx *gorm.DB) error {
			set := map[string]any{"written": written.UnixMilli()}
			if len(all) > 0 {
				set = map[string]any{"holder": node} // only checks and locks
			}
			res := tx.Model(&writerRow{}).Where("id = 1 AND holder = ?", node).Updates(set)
			if res.Error != nil {
				return res.Error
			}
			if res.RowsAffected == 0 {
				return errLeaseLost
			}
			if len(some) == 0 {
				return nil
			}
			return tx.Clauses(clause.OnConflict{
				Columns:   []clause.Column{{Name: "kind"}, {Name: "rule"}, {Name: "period"}},
				DoUpdates: clause.AssignmentColumns([]string{"data"}),
			}).CreateInBatches(some, statsBatch).Error
		})
		switch {
		case errors.Is(err, errLeaseLost):
			return false, nil
		case err != nil || len(all) == 0:
			return err == nil, err
		}
	}
}

// ReadStats implements history.Store.
func (d *DB) ReadStats(ctx context.Context, kind history.Kind, rules []string, first, last int64) ([]history.StoredRow,
	error) {
	var rows []statsRow
	err := d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		tx = tx.Where("kind = ? AND period BETWEEN ? AND ?", kind, first, last)
		if rules != nil {
			tx = tx.Where("rule IN ?", rules)
		}
		return tx.Order("rule, period").Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]history.StoredRow, len(rows))
	for i, r := range rows {
		out[i] = history.StoredRow(r)
	}
	return out, nil
}

// WrittenStats implements history.Store.
func (d *DB) WrittenStats(ctx context.Context) (time.Time, error) {
	var row writerRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Take(&row, 1).Error })
	return writtenAt(row), err
}

// CleanStats implements history.Store.
func (d *DB) CleanStats(ctx context.Context, kind history.Kind, before int64, limit int) (n int64, err error) {
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
