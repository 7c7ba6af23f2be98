package database

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

// maxTokenName is the longest name of a token, in bytes.
const maxTokenName = 128

// tokenDetails holds the details of an audit entry about a token, without the hash.
type tokenDetails struct {
	Scopes    []access.Scope `json:"scopes"`
	ExpiresAt *time.Time     `json:"expires_at"`
}

// rotatedDetails holds the details of the audit entry about a token that was rotated.
type rotatedDetails struct {
	tokenDetails
	// NewToken is the id of the token that replaces it, to which the scopes and the expiry belong.
	NewToken int64 `json:"new_token"`
	// OldExpiresAt is the end of the token that was rotated.
	OldExpiresAt *time.Time `json:"old_expires_at"`
}

// The bounds of how long the old token of a rotation stays in force.
const (
	// MinOverlap is the shortest time.
	MinOverlap = time.Minute
	// MaxOverlap is the longest time.
	MaxOverlap = 30 * 24 * time.Hour
)

// CreateToken stores a token whose secret the caller has created with access.NewSecret, and
// returns it with its id, creator and time. Errors: *ValidationError, ErrNameTaken (a valid token
// has the name), ErrUnavailable.
func (d *DB) CreateToken(ctx context.Context, actor rules.Actor, t access.Token) (access.Token, error) {
	if err := validateToken(&t); err != nil {
		return access.Token{}, err
	}
	var row tokenRow
	err := d.change(ctx, actor, areaTokens, d.callTimeout, func(c *change) (err error) {
		if row, err = c.addToken(&t); err != nil {
			return err
		}
		return c.record(actionCreate, subjectToken, row.ID, row.Name, tokenDetails{t.Scopes, row.ExpiresAt.optional()})
	})
	if err != nil {
		return access.Token{}, err
	}
	return row.token(), nil
}

// addToken stores a token without an audit entry.
func (c *change) addToken(t *access.Token) (tokenRow, error) {
	row := tokenRow{
		Name: t.Name, Hash: t.Hash[:], Scopes: access.FormatScopes(t.Scopes), CreatedBy: c.actor.Name, CreatedAt: c.at,
		ExpiresAt: optionalRowTime(t.ExpiresAt),
	}
	return row, c.tx.Create(&row).Error
}

func validateToken(t *access.Token) error {
	var fields []field.Problem
	t.Name = strings.TrimSpace(t.Name)
	switch {
	case t.Name == "" || len(t.Name) > maxTokenName:
		fields = append(fields, field.Problem{Field: "name", Message: "must have 1 to 128 bytes"})
	case !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, unprintable):
		fields = append(fields, field.Problem{Field: "name", Message: "must be printable text"})
	}
	if _, err := access.ParseScopes(access.FormatScopes(t.Scopes)); err != nil {
		fields = append(fields, field.Problem{Field: "scopes", Message: err.Error()})
	}
	if t.Hash == [32]byte{} {
		fields = append(fields, field.Problem{Field: "hash", Message: "must be the hash of a secret"})
	}
	if len(fields) > 0 {
		return &field.ValidationError{Fields: fields}
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// RevokeToken revokes a token permanently. Errors: ErrNotFound (no such token, or already
// revoked), ErrUnavailable.
func (d *DB) RevokeToken(ctx context.Context, actor rules.Actor, id int64) error {
	return d.change(ctx, actor, areaTokens, d.callTimeout, func(c *change) error {
		var row tokenRow
		if err := c.takeToken(id, &row); err != nil {
			return err
		}
		if err := c.tx.Model(&tokenRow{}).Where("id = ?", id).UpdateColumn("revoked_at", c.at).Error; err != nil {
			return err
		}
		t := row.token()
		return c.record(actionRevoke, subjectToken, t.ID, t.Name, tokenDetails{t.Scopes, t.ExpiresAt})
	})
}

// RotateToken replaces a token in force by a new one with the same name, scopes and lifetime, whose hash the caller has
// from access.NewSecret. The old token expires after the overlap, or at its own end if that comes first. It returns
// both. Errors: *ValidationError (the overlap), ErrNotFound (no such token, or revoked), access.ErrNotRotatable,
// ErrUnavailable.
func (d *DB) RotateToken(ctx context.Context, actor rules.Actor, id int64, hash [32]byte, overlap time.Duration) (old,
	replacement access.Token, err error) {
	if overlap < MinOverlap || overlap > MaxOverlap {
		return old, replacement, &field.ValidationError{Fields: []field.Problem{{Field: "overlap",
			Message: "must be between a minute and 30 days"}}}
	}
	var was, row tokenRow
	err = d.change(ctx, actor, areaTokens, d.callTimeout, func(c *change) error {
		if err := c.takeToken(id, &was); err != nil {
			return err
		}
		now := was.token()
		if now.ReplacedAt != nil || now.InForce(c.at.Time) != nil {
			return access.ErrNotRotatable
		}
		row = tokenRow{Name: was.Name, Hash: hash[:], Scopes: was.Scopes, CreatedBy: actor.Name, CreatedAt: c.at}
		ends := newRowTime(c.at.Add(overlap))
		if was.ExpiresAt != nil {
			lives := newRowTime(c.at.Add(was.ExpiresAt.Sub(was.CreatedAt.Time)))
			row.ExpiresAt = &lives
			if was.ExpiresAt.Before(ends.Time) {
				ends = *was.ExpiresAt
			}
		}
		was.ExpiresAt, was.ReplacedAt = &ends, &c.at
		err := c.tx.Model(&tokenRow{}).Where("id = ?", id).
			UpdateColumns(map[string]any{"expires_at": ends, "replaced_at": c.at}).Error
		if err != nil {
			return err
		}
		if err := c.tx.Create(&row).Error; err != nil {
			return err
		}
		return c.record(actionRotate, subjectToken, id, was.Name, rotatedDetails{
			tokenDetails{now.Scopes, row.ExpiresAt.optional()}, row.ID, &ends.Time})
	})
	if err != nil {
		return access.Token{}, access.Token{}, err
	}
	return was.token(), row.token(), nil
}

// takeToken reads a token that is not revoked.
func (c *change) takeToken(id int64, row *tokenRow) error {
	err := c.tx.Where("id = ? AND revoked_at IS NULL", id).Take(row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return rules.ErrNotFound
	}
	return err
}

// ListTokens returns every token ordered by id, including revoked and expired ones, with its last use. A use before the
// token was created is of another token, which a restored backup lacks.
func (d *DB) ListTokens(ctx context.Context) ([]access.Token, error) {
	var rows []tokenRow
	var uses []tokenUseRow
	err := d.snapshot(ctx, loadTimeout, func(tx *gorm.DB) error {
		if err := tx.Order("id").Find(&rows).Error; err != nil {
			return err
		}
		return tx.Find(&uses).Error
	})
	if err != nil {
		return nil, err
	}
	used := make(map[int64]access.Use, len(uses))
	for i := range uses {
		u := &uses[i]
		used[u.TokenID] = access.Use{Token: u.TokenID, At: time.UnixMilli(u.UsedAt).UTC(), Endpoint: u.Endpoint}
	}
	tokens := make([]access.Token, len(rows))
	for i := range rows {
		tokens[i] = rows[i].token()
		if u, ok := used[rows[i].ID]; ok && !u.At.Before(tokens[i].CreatedAt) {
			tokens[i].LastUse = &u
		}
	}
	return tokens, nil
}

// LoadTokens returns the input of access.NewKeyring: every token, including revoked and expired
// ones, because having created one ends the open mode permanently. The version is of the same
// moment.
func (d *DB) LoadTokens(ctx context.Context) ([]access.Token, Version, error) {
	var rows []tokenRow
	var v Versions
	err := d.snapshot(ctx, loadTimeout, func(tx *gorm.DB) (err error) {
		if v, err = versionsIn(tx); err != nil {
			return err
		}
		return tx.Order("id").Find(&rows).Error
	})
	if err != nil {
		return nil, NoVersion, err
	}
	tokens := make([]access.Token, len(rows))
	for i := range rows {
		tokens[i] = rows[i].token()
	}
	return tokens, v.Tokens, nil
}
