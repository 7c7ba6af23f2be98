package database

import (
	"context"
	"crypto/rand"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/rules"
)

// recordKeyBytes is the length of the key of records. It equals the length of the hash that uses the key.
const recordKeyBytes = 32

// recordKeyRow is the row of record_key.
type recordKeyRow struct {
	ID  int    `gorm:"column:id;primaryKey"`
	Key []byte `gorm:"column:key"`
}

// TableName implements gorm's Tabler.
func (recordKeyRow) TableName() string { return "record_key" }

// RecordKey returns the key with which all nodes of this database hash credentials in the decision log. The first
// call creates it; a read replica has it once the primary does.
func (d *DB) RecordKey(ctx context.Context) ([]byte, error) {
	if d.Replica() {
		var row recordKeyRow
		err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Take(&row, 1).Error })
		if errors.Is(err, rules.ErrNotFound) {
			err = d.writable()
		}
		return row.Key, err
	}
	row := recordKeyRow{ID: 1, Key: make([]byte, recordKeyBytes)}
	_, _ = rand.Read(row.Key) // never fails: it ends the process instead
	err := d.writeIn(ctx, func(tx *gorm.DB) error {
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
			return err
		}
		return tx.Take(&row, 1).Error
	})
	if err != nil {
		return nil, err
	}
	return row.Key, nil
}
