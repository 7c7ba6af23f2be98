package database

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

const (
	// actorSignOn is the actor kind of changes by single sign-on; its name is the issuer.
	actorSignOn = "sso"
	// madeBySignOn is the creator of accounts that were created at the first sign-in.
	madeBySignOn = "single sign-on"
)

// SignOn finds or creates the account of an identity and sets the role that the identity maps to;
// another role ends its sessions. Accounts are found by issuer and subject, never by a name. An
// identity without a role gets no account, and its sessions end if it has one. Even the last
// administrator can lose the role here, because the provider decides.
//
// Errors: ErrNoRole, ErrDisabled, *ValidationError, ErrUnavailable.
func (d *DB) SignOn(ctx context.Context, id access.Identity) (access.User, error) {
	if id.Issuer == "" || id.Subject == "" {
		return access.User{}, &field.ValidationError{Fields: []field.Problem{{Field: "subject",
			Message: "must not be empty"}}}
	}
	if u, err := d.userOf(ctx, id); err == nil && !u.Disabled && u.Role == id.Role {
		return u, nil // as nearly always: nothing to write
	} else if err != nil && !errors.Is(err, rules.ErrNotFound) {
		return access.User{}, err
	}
	var row userRow
	err := d.change(ctx, rules.Actor{Kind: actorSignOn, Name: id.Issuer}, areaUsers, d.callTimeout, func(c *change) error {
		err := c.tx.Where("issuer = ? AND subject = ?", id.Issuer, id.Subject).Take(&row).Error
		switch {
		case errors.Is(err, gorm.ErrRecordNotFound) && id.Role == "":
			return access.ErrNoRole
		case errors.Is(err, gorm.ErrRecordNotFound):
			return c.welcome(&row, id)
		case err != nil:
			return err
		case row.Disabled:
			return access.ErrDisabled
		}
		return c.follow(&row, id)
	})
	switch {
	case err != nil:
		return access.User{}, err
	case id.Role == "":
		return access.User{}, access.ErrNoRole
	}
	return row.user(), nil
}

func (d *DB) userOf(ctx context.Context, id access.Identity) (access.User, error) {
	var row userRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("issuer = ? AND subject = ?", id.Issuer, id.Subject).Take(&row).Error
	})
	if err != nil {
		return access.User{}, err
	}
	return row.user(), nil
}

// welcome creates the account of a person who signs in for the first time.
func (c *change) welcome(row *userRow, id access.Identity) error {
	name, err := c.freeName(id.Name)
	if err != nil {
		return err
	}
	u := access.User{Name: name, Role: id.Role}
	if err := validateUser(&u); err != nil {
		return err
	}
	*row = userRow{
		Name: name, Role: string(id.Role), Issuer: id.Issuer, Subject: id.Subject, Generation: 1,
		CreatedBy: madeBySignOn, CreatedAt: c.at, UpdatedAt: c.at,
	}
	if err := c.tx.Create(row).Error; err != nil {
		return err
	}
	return c.record(actionCreate, subjectUser, row.ID, row.Name, userDetails{Role: id.Role, Subject: id.Subject})
}

// follow sets the role of an account to the role of its identity, or ends the sessions of the account if the identity
// has none.
func (c *change) follow(row *userRow, id access.Identity) error {
	if row.Role == string(id.Role) {
		return nil // someone else was quicker
	}
	action, details := actionSignOut, any(struct{}{})
	if id.Role != "" {
		if _, err := access.ParseRole(string(id.Role)); err != nil {
			return &field.ValidationError{Fields: []field.Problem{{Field: "role", Message: err.Error()}}}
		}
		row.Role = string(id.Role)
		action, details = actionUpdate, userDetails{Role: id.Role, Subject: id.Subject}
	}
	row.Generation, row.UpdatedAt = row.Generation+1, c.at
	err := c.tx.Model(&userRow{}).Where("id = ?", row.ID).Select("role", "generation",
		"updated_at").UpdateColumns(row).Error
	if err != nil {
		return err
	}
	return c.record(action, subjectUser, row.ID, row.Name, details)
}

// freeName returns the wanted name, or a similar one that is free: ada, ada-2, ada-3. The
// transaction is the only writer, so the name stays free.
func (c *change) freeName(want string) (string, error) {
	want = access.AccountName(want)
	for n := 1; n <= 100; n++ {
		name := want
		if n > 1 {
			name = numbered(want, strconv.Itoa(n))
		}
		var taken int64
		if err := c.tx.Model(&userRow{}).Where("name = ?", name).Count(&taken).Error; err != nil || taken == 0 {
			return name, err
		}
	}
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	return numbered(want, hex.EncodeToString(raw[:])), nil
}

func numbered(name, suffix string) string {
	return name[:min(len(name), access.MaxName-1-len(suffix))] + "-" + suffix
}
