package database

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/access"
	"sluice/rules"
)

// viewRow is a row of saved_views.
type viewRow struct {
	ID     int64  `gorm:"column:id;primaryKey;autoIncrement"`
	UserID int64  `gorm:"column:user_id"`
	Name   string `gorm:"column:name"`
	Path   string `gorm:"column:path"`
	Query  string `gorm:"column:query"`
}

// TableName implements gorm's Tabler.
func (viewRow) TableName() string { return "saved_views" }

// SavedViews returns the views that an account saved, in order of name.
func (d *DB) SavedViews(ctx context.Context, user int64) ([]access.SavedView, error) {
	var rows []viewRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("user_id = ?", user).Order("name, id").Limit(access.MaxSavedViews).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]access.SavedView, len(rows))
	for i, r := range rows {
		out[i] = access.SavedView{ID: r.ID, Name: r.Name, Path: r.Path, Query: r.Query}
	}
	return out, nil
}

// SaveView stores a view of an account: a new one if its ID is 0, else under a new name. The audit log does not contain
// it, because it changes nothing for others. Errors: *field.ValidationError, rules.ErrNameTaken, rules.ErrNotFound,
// rules.ErrUnavailable.
func (d *DB) SaveView(ctx context.Context, user int64, v access.SavedView) error {
	name, err := access.CheckViewName(v.Name)
	if err != nil {
		return err
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		if err := d.lockUser(tx, user); err != nil {
			return err
		}
		if v.ID != 0 {
			res := tx.Model(&viewRow{}).Where("id = ? AND user_id = ?", v.ID, user).UpdateColumn("name", name)
			if res.Error != nil || res.RowsAffected == 0 {
				return missingOr(res.Error)
			}
			return nil
		}
		var n int64
		if err := tx.Model(&viewRow{}).Where("user_id = ?", user).Count(&n).Error; err != nil {
			return err
		}
		if n >= access.MaxSavedViews {
			return access.ErrTooManyViews
		}
		return tx.Create(&viewRow{UserID: user, Name: name, Path: v.Path, Query: v.Query}).Error
	})
}

// lockUser keeps other requests of an account from saving views until the transaction ends, so that only one of them
// saves the last. SQLite has one writer.
func (d *DB) lockUser(tx *gorm.DB, user int64) error {
	if d.dialect == dialectPostgres {
		tx = tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	return tx.Take(&userRow{}, user).Error
}

// missingOr is an error, or rules.ErrNotFound for none.
func missingOr(err error) error {
	if err == nil {
		return rules.ErrNotFound
	}
	return err
}

// DeleteView deletes a view of an account. Errors: rules.ErrNotFound, rules.ErrUnavailable.
func (d *DB) DeleteView(ctx context.Context, user, id int64) error {
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		res := tx.Where("id = ? AND user_id = ?", id, user).Delete(&viewRow{})
		if res.Error != nil || res.RowsAffected == 0 {
			return missingOr(res.Error)
		}
		return nil
	})
}
