package database

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/stats"
)

// eventRow is a row of events.
type eventRow struct {
	ID   string `gorm:"column:id;primaryKey"`
	At   int64  `gorm:"column:at"`
	Node string `gorm:"column:node"`
	Kind string `gorm:"column:kind"`
	Data string `gorm:"column:data"`
}

// TableName implements gorm's Tabler.
func (eventRow) TableName() string { return "events" }

// SaveEvents stores events in one transaction. An event replaces an earlier one with the same id, so that repeating a
// call changes nothing.
func (d *DB) SaveEvents(ctx context.Context, events []stats.Event) error {
	rows := make([]eventRow, len(events))
	for i, e := range events {
		rows[i] = eventRow{e.ID, e.At.UnixMilli(), e.Node, e.Kind, string(e.Data)}
	}
	if len(rows) == 0 {
		return nil
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(rows, statsBatch).Error
	})
}

// Events returns up to limit events from from to before to: the newest, oldest first.
func (d *DB) Events(ctx context.Context, from, to time.Time, limit int) ([]stats.Event, error) {
	var rows []eventRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("at >= ? AND at < ?", from.UnixMilli(), to.UnixMilli()).Order("at DESC, id DESC").Limit(limit).
			Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]stats.Event, len(rows))
	for i, r := range rows {
		out[len(rows)-1-i] = stats.Event{ID: r.ID, At: time.UnixMilli(r.At).UTC(), Node: r.Node, Kind: r.Kind,
			Data: []byte(r.Data)}
	}
	return out, nil
}

// CleanEvents deletes up to limit events before an instant and returns how many.
func (d *DB) CleanEvents(ctx context.Context, before time.Time, limit int) (n int64, err error) {
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		old := tx.Model(&eventRow{}).Select("id").Where("at < ?", before.UnixMilli()).Limit(limit)
		res := tx.Where("id IN (?)", old).Delete(&eventRow{})
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}
