package database

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
)

// sessionRow is a row of sessions.
type sessionRow struct {
	Token     string  `gorm:"column:token;primaryKey"`
	Data      []byte  `gorm:"column:data"`
	ExpiresAt rowTime `gorm:"column:expires_at"`
}

// TableName implements gorm's Tabler.
func (sessionRow) TableName() string { return "sessions" }

// FindSession returns the session with a hashed token; found is false if there is none, or it has
// expired.
func (d *DB) FindSession(ctx context.Context, token string) (s access.Session, found bool, err error) {
	var row sessionRow
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("token = ? AND expires_at > ?", token, d.rowTimeNow()).Take(&row).Error
	})
	if errors.Is(err, rules.ErrNotFound) {
		return access.Session{}, false, nil
	}
	return access.Session{Token: row.Token, Data: row.Data, ExpiresAt: row.ExpiresAt.Time}, err == nil, err
}

// CreateSession stores a new session until it expires.
func (d *DB) CreateSession(ctx context.Context, s access.Session) error {
	return d.writeSession(ctx, func(tx *gorm.DB) error { return insertSession(tx, &s) })
}

// UpdateSession writes the data and the expiry of a session, or only the expiry if Data is nil.
// found is false if the session has ended; then nothing is written, so that a request in progress
// cannot restore it.
func (d *DB) UpdateSession(ctx context.Context, s access.Session) (found bool, err error) {
	set := map[string]any{"expires_at": newRowTime(s.ExpiresAt)}
	if s.Data != nil {
		set["data"] = s.Data
	}
	err = d.writeSession(ctx, func(tx *gorm.DB) error {
		res := tx.Model(&sessionRow{}).Where("token = ? AND expires_at > ?", s.Token, d.rowTimeNow()).Updates(set)
		found = res.RowsAffected > 0
		return res.Error
	})
	return found && err == nil, err
}

// ReplaceSession replaces the session with the hashed token old by s, in one transaction. found is
// false if the old one has ended; then nothing is stored.
func (d *DB) ReplaceSession(ctx context.Context, old string, s access.Session) (found bool, err error) {
	err = d.writeSession(ctx, func(tx *gorm.DB) error {
		return tx.Transaction(func(tx *gorm.DB) error {
			res := tx.Where("token = ? AND expires_at > ?", old, d.rowTimeNow()).Delete(&sessionRow{})
			if found = res.RowsAffected > 0; res.Error != nil || !found {
				return res.Error
			}
			if err := insertSession(tx, &s); err != nil {
				return err
			}
			next := access.Session{Token: successorOf + old, Data: []byte(s.Token), ExpiresAt: d.now().Add(successorLife)}
			return insertSession(tx, &next)
		})
	})
	return found && err == nil, err
}

// A replaced session's token is kept for successorLife with the token of its successor, so that signing out with the
// old token also ends the new session.
const (
	successorOf   = "next:" // not a hash, so no session has such a token
	successorLife = 10 * time.Minute
	// maxSuccessors bounds how many replacements DeleteSession follows.
	maxSuccessors = 16
)

func insertSession(tx *gorm.DB, s *access.Session) error {
	return tx.Create(&sessionRow{Token: s.Token, Data: s.Data, ExpiresAt: newRowTime(s.ExpiresAt)}).Error
}

// DeleteSession ends a session and its recent replacements. It is no error if there are none.
func (d *DB) DeleteSession(ctx context.Context, token string) error {
	return d.writeSession(ctx, func(tx *gorm.DB) error {
		return tx.Transaction(func(tx *gorm.DB) error {
			for range maxSuccessors {
				// A replacement that is under way ends before this statement does.
				if err := tx.Where("token = ?", token).Delete(&sessionRow{}).Error; err != nil {
					return err
				}
				var next []sessionRow
				if err := tx.Where("token = ?", successorOf+token).Find(&next).Error; err != nil || len(next) == 0 {
					return err
				}
				token = string(next[0].Data)
			}
			return nil
		})
	})
}

// SweepSessions deletes the expired sessions and returns their number.
func (d *DB) SweepSessions(ctx context.Context) (n int64, err error) {
	if d.Replica() {
		return 0, nil
	}
	err = d.writeSession(ctx, func(tx *gorm.DB) error {
		res := tx.Where("expires_at <= ?", d.rowTimeNow()).Delete(&sessionRow{})
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}

func (d *DB) writeSession(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if err := d.writable(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	err := d.classify(ctx, fn(d.write.WithContext(limited)))
	if d.dialect == dialectSQLite { // which has one connection that writes
		return busy(limited, err)
	}
	return err
}
