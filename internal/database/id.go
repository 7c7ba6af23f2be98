package database

import (
	"context"

	"gorm.io/gorm"
)

// databaseIDRow is the row of database_id.
type databaseIDRow struct {
	ID    int    `gorm:"column:id;primaryKey"`
	Value string `gorm:"column:value"`
}

// TableName implements gorm's Tabler.
func (databaseIDRow) TableName() string { return "database_id" }

// ID returns the random id of this database: 32 hexadecimal digits that a migration has made. Copies, replicas and
// restored backups have the same. Errors: rules.ErrUnavailable, and others before Migrate.
func (d *DB) ID(ctx context.Context) (string, error) {
	var row databaseIDRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Take(&row, 1).Error })
	return row.Value, err
}
