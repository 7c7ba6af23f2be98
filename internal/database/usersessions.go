package database

import (
	"context"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
)

// maxSessions bounds the number of listed sessions.
const maxSessions = 5000

// ListSessions returns all sessions that have not expired, latest expiry first, at most 5000.
func (d *DB) ListSessions(ctx context.Context) ([]access.Session, error) {
	var rows []sessionRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("expires_at > ? AND token NOT LIKE ?", d.rowTimeNow(),
			successorOf+"%").Order("expires_at DESC").Limit(maxSessions).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	list := make([]access.Session, len(rows))
	for i := range rows {
		list[i] = access.Session{Token: rows[i].Token, Data: rows[i].Data, ExpiresAt: rows[i].ExpiresAt.Time}
	}
	return list, nil
}

// EndSessions ends all sessions of an account. Errors: ErrNotFound, ErrUnavailable.
func (d *DB) EndSessions(ctx context.Context, actor rules.Actor, id int64) (access.User, error) {
	var row userRow
	err := d.change(ctx, actor, areaUsers, d.callTimeout, func(c *change) error {
		if err := c.tx.Where("id = ?", id).Take(&row).Error; err != nil {
			return err
		}
		row.Generation++
		if err := c.tx.Model(&userRow{}).Where("id = ?", id).UpdateColumn("generation", row.Generation).Error; err != nil {
			return err
		}
		return c.record(actionSignOut, subjectUser, row.ID, row.Name, struct{}{})
	})
	if err != nil {
		return access.User{}, err
	}
	return row.user(), nil
}
