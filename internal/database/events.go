package database

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/history/incident"
)

// eventRow is a row of events. Times are in ms since the epoch; Ended is 0 while it lasts.
type eventRow struct {
	ID    string `gorm:"column:id;primaryKey"`
	Kind  string `gorm:"column:kind"`
	At    int64  `gorm:"column:at"`
	Ended int64  `gorm:"column:ended"`
	Node  string `gorm:"column:node"`
	Data  string `gorm:"column:data"`
}

// TableName implements gorm's Tabler.
func (eventRow) TableName() string { return "events" }

var _ incident.Store = (*DB)(nil)

// AddEvents implements incident.Store.
func (d *DB) AddEvents(ctx context.Context, events []incident.Event) error {
	rows := make([]eventRow, len(events))
	for i, e := range events {
		rows[i] = eventRow{ID: e.ID, Kind: e.Kind, At: e.At.UnixMilli(), Node: e.Node, Data: string(e.Data)}
		if !e.End.IsZero() {
			rows[i].Ended = e.End.UnixMilli()
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(rows, statsBatch).Error
	})
}

// Events implements incident.Store.
func (d *DB) Events(ctx context.Context, kinds []string, from, to time.Time, limit int) ([]incident.Event, error) {
	var rows []eventRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("kind IN ? AND at < ? AND (ended = 0 OR ended >= ?)", kinds, to.UnixMilli(), from.UnixMilli()).
			Order("at DESC, id DESC").Limit(limit).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]incident.Event, len(rows))
	for i, r := range rows {
		out[i] = incident.Event{ID: r.ID, Kind: r.Kind, At: time.UnixMilli(r.At).UTC(), Node: r.Node}
		if r.Ended > 0 {
			out[i].End = time.UnixMilli(r.Ended).UTC()
		}
		if r.Data != "" {
			out[i].Data = []byte(r.Data)
		}
	}
	return out, nil
}

// CleanEvents deletes up to limit events before an instant and returns how many.
func (d *DB) CleanEvents(ctx context.Context, before time.Time, limit int) (n int64, err error) {
	if d.Replica() {
		return 0, nil
	}
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		old := tx.Model(&eventRow{}).Select("id").Where("at < ?", before.UnixMilli()).Limit(limit)
		res := tx.Where("id IN (?)", old).Delete(&eventRow{})
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}
