package database

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/rules"
)

// sessionRow is a row of sessions.
type sessionRow struct {
	Token     string `gorm:"column:token;primaryKey"`
	Data      []byte `gorm:"column:data"`
	ExpiresAt stamp  `gorm:"column:expires_at"`
}

// TableName implements gorm's Tabler.
func (sessionRow) TableName() string { return "sessions" }

// FindSession gives what is stored under a session's hashed token; found is
// false if there is none, or it has expired.
func (d *DB) FindSession(ctx context.Context, token string) (data []byte, found bool, err error) {
	var row sessionRow
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("token = ? AND expires_at > ?", token, d.stampNow()).Take(&row).Error
	})
	if errors.Is(err, rules.ErrNotFound) {
		return nil, false, nil
	}
	return row.Data, err == nil, err
}

// SaveSession stores a session until it expires, over the one of that token.
func (d *DB) SaveSession(ctx context.Context, token string, data []byte, expires time.Time) error {
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	row := sessionRow{Token: token, Data: data, ExpiresAt: newStamp(expires)}
	return classify(ctx, d.write.WithContext(limited).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "token"}}, DoUpdates: clause.AssignmentColumns([]string{"data", "expires_at"}),
	}).Create(&row).Error)
}

// DeleteSession ends a session; there need not be one.
func (d *DB) DeleteSession(ctx context.Context, token string) error {
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	return classify(ctx, d.write.WithContext(limited).Where("token = ?", token).Delete(&sessionRow{}).Error)
}

// SweepSessions deletes the sessions that have expired and says how many.
func (d *DB) SweepSessions(ctx context.Context) (int64, error) {
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	res := d.write.WithContext(limited).Where("expires_at <= ?", d.stampNow()).Delete(&sessionRow{})
	return res.RowsAffected, classify(ctx, res.Error)
}
