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

// CreateToken stores a token whose secret the caller has created with access.NewSecret, and
// returns it with its id, creator and time. Errors: *ValidationError, ErrNameTaken (a valid token
// has the name), ErrUnavailable.
func (d *DB) CreateToken(ctx context.Context, actor rules.Actor, t access.Token) (access.Token, error) {
	if err := validateToken(&t); err != nil {
		return access.Token{}, err
	}
	row := tokenRow{
		Name: t.Name, Hash: t.Hash[:], Scopes: access.FormatScopes(t.Scopes),
		CreatedBy: actor.Name, ExpiresAt: optionalRowTime(t.ExpiresAt),
	}
	err := d.change(ctx, actor, areaTokens, d.callTimeout, func(c *change) error {
		row.CreatedAt = c.at
		if err := c.tx.Create(&row).Error; err != nil {
			return err
		}
		return c.record(actionCreate, subjectToken, row.ID, row.Name, tokenDetails{t.Scopes, row.ExpiresAt.optional()})
	})
	if err != nil {
		return access.Token{}, err
	}
	return row.token(), nil
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
		err := c.tx.Where("id = ? AND revoked_at IS NULL", id).Take(&row).Error
		if errors.Is(err, gorm.ErrRecordNotFound) {
			return rules.ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := c.tx.Model(&tokenRow{}).Where("id = ?", id).UpdateColumn("revoked_at", c.at).Error; err != nil {
			return err
		}
		t := row.token()
		return c.record(actionRevoke, subjectToken, t.ID, t.Name, tokenDetails{t.Scopes, t.ExpiresAt})
	})
}

// ListTokens returns every token ordered by id, including revoked and expired ones.
func (d *DB) ListTokens(ctx context.Context) ([]access.Token, error) {
	tokens, _, err := d.LoadTokens(ctx)
	return tokens, err
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
