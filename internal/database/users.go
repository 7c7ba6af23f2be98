package database

import (
	"context"
	"regexp"
	"slices"
	"time"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

const (
	areaUsers     = "users"
	subjectUser   = "user"
	actionDisable = "disable"
	actionEnable  = "enable"
	actionSignOut = "sign_out"
)

// userRow is a row of users.
type userRow struct {
	ID           int64    `gorm:"column:id;primaryKey;autoIncrement"`
	Name         string   `gorm:"column:name"`
	Role         string   `gorm:"column:role"`
	PasswordHash string   `gorm:"column:password_hash"`
	Issuer       string   `gorm:"column:issuer"`
	Subject      string   `gorm:"column:subject"`
	Disabled     bool     `gorm:"column:disabled"`
	Generation   int64    `gorm:"column:generation"`
	CreatedBy    string   `gorm:"column:created_by"`
	CreatedAt    rowTime  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt    rowTime  `gorm:"column:updated_at;autoUpdateTime:false"`
	LastLogin    *rowTime `gorm:"column:last_login"`
}

// TableName implements gorm's Tabler.
func (userRow) TableName() string { return "users" }

func (row *userRow) user() access.User {
	return access.User{
		ID: row.ID, Name: row.Name, Role: access.Role(row.Role), PasswordHash: row.PasswordHash, Disabled: row.Disabled,
		Issuer: row.Issuer, Subject: row.Subject,
		Generation: row.Generation, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
		LastLogin: row.LastLogin.optional(),
	}
}

// userDetails holds the details of an audit entry about an account, without the hash, only that it
// changed.
type userDetails struct {
	Role     access.Role `json:"role"`
	Disabled bool        `json:"disabled"`
	Password bool        `json:"password_changed"`
	// Subject identifies the account at the provider of single sign-on.
	Subject string `json:"subject,omitempty"`
}

var userName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,62}$`)

func validateUser(u *access.User) error {
	var fields []field.Problem
	if !userName.MatchString(u.Name) {
		fields = append(fields, field.Problem{Field: "name",
			Message: "must be 1 to 63 of a-z, 0-9 and . _ @ -, beginning with a letter or digit"})
	}
	if _, err := access.ParseRole(string(u.Role)); err != nil {
		fields = append(fields, field.Problem{Field: "role", Message: err.Error()})
	}
	if len(fields) > 0 {
		return &field.ValidationError{Fields: fields}
	}
	return nil
}

// CreateUser stores an account and returns it with its id, creator and times. With first it
// succeeds only if there is no account yet. Errors: *ValidationError, ErrNameTaken, ErrNotFirst,
// ErrUnavailable.
func (d *DB) CreateUser(ctx context.Context, actor rules.Actor, u access.User, first bool) (access.User, error) {
	if err := validateUser(&u); err != nil {
		return access.User{}, err
	}
	row := userRow{Name: u.Name, Role: string(u.Role), PasswordHash: u.PasswordHash, Disabled: u.Disabled, Generation: 1,
		CreatedBy: actor.Name}
	err := d.change(ctx, actor, areaUsers, d.callTimeout, func(c *change) error {
		if first {
			var n int64
			if err := c.tx.Model(&userRow{}).Count(&n).Error; err != nil {
				return err
			}
			if n > 0 {
				return access.ErrNotFirst
			}
		}
		row.CreatedAt, row.UpdatedAt = c.at, c.at
		if err := c.tx.Create(&row).Error; err != nil {
			return err
		}
		return c.record(actionCreate, subjectUser, row.ID, row.Name, userDetails{Role: u.Role, Disabled: u.Disabled,
			Password: u.PasswordHash != ""})
	})
	if err != nil {
		return access.User{}, err
	}
	return row.user(), nil
}

// UpdateUser writes role, password hash and disabled of the account u.ID, and ends its sessions if
// any of them differs. A Generation other than 0 must be the stored one. Errors: *ValidationError,
// ErrNotFound, ErrStale (another generation), ErrLastAdmin, ErrExternal (single sign-on controls
// role and password), ErrUnavailable.
func (d *DB) UpdateUser(ctx context.Context, actor rules.Actor, u access.User) (access.User, error) {
	if err := validateUser(&u); err != nil {
		return access.User{}, err
	}
	var row userRow
	err := d.change(ctx, actor, areaUsers, d.callTimeout, func(c *change) error {
		if err := c.tx.Where("id = ?", u.ID).Take(&row).Error; err != nil {
			return err
		}
		if u.Generation != 0 && u.Generation != row.Generation {
			return rules.ErrStale
		}
		was := row
		row.Role, row.Disabled, row.PasswordHash = string(u.Role), u.Disabled, u.PasswordHash
		if row == was {
			return nil
		}
		if row.Issuer != "" && (row.Role != was.Role || row.PasswordHash != was.PasswordHash) {
			return access.ErrExternal
		}
		if err := c.keepAnAdmin(&was, &row, d.signOnIssuer); err != nil {
			return err
		}
		row.Generation, row.UpdatedAt = was.Generation+1, c.at
		if err := c.tx.Model(&userRow{}).Where("id = ?", u.ID).
			Select("role", "disabled", "password_hash", "generation", "updated_at").UpdateColumns(&row).Error; err != nil {
			return err
		}
		action := actionUpdate
		if row.Disabled && !was.Disabled {
			action = actionDisable
		} else if was.Disabled && !row.Disabled {
			action = actionEnable
		}
		return c.record(action, subjectUser, row.ID, row.Name, userDetails{Role: u.Role, Disabled: u.Disabled,
			Password: row.PasswordHash != was.PasswordHash})
	})
	if err != nil {
		return access.User{}, err
	}
	return row.user(), nil
}

// keepAnAdmin refuses to remove the last administrator who can sign in: one with a password, or
// one of the single sign-on provider issuer.
func (c *change) keepAnAdmin(was, is *userRow, issuer string) error {
	counts := func(r *userRow) bool {
		if r.Role != string(access.RoleAdmin) || r.Disabled {
			return false
		}
		if r.Issuer != "" {
			return r.Issuer == issuer
		}
		return r.PasswordHash != ""
	}
	if !counts(was) || counts(is) {
		return nil
	}
	var others []userRow
	err := c.tx.Where("role = ? AND disabled = ? AND id <> ?", string(access.RoleAdmin), false, was.ID).Find(&others).Error
	if err == nil && !slices.ContainsFunc(others, func(r userRow) bool { return counts(&r) }) {
		return access.ErrLastAdmin
	}
	return err
}

// GetUser returns the account with an id, or ErrNotFound.
func (d *DB) GetUser(ctx context.Context, id int64) (access.User, error) {
	return d.oneUser(ctx, "id = ?", id)
}

// GetUserByName returns the account with a name, or ErrNotFound.
func (d *DB) GetUserByName(ctx context.Context, name string) (access.User, error) {
	if !userName.MatchString(name) {
		return access.User{}, rules.ErrNotFound
	}
	return d.oneUser(ctx, "name = ?", name)
}

func (d *DB) oneUser(ctx context.Context, condition string, value any) (access.User, error) {
	var row userRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Where(condition, value).Take(&row).Error })
	if err != nil {
		return access.User{}, err
	}
	return row.user(), nil
}

// ListUsers returns every account ordered by name, including disabled ones.
func (d *DB) ListUsers(ctx context.Context) ([]access.User, error) {
	var rows []userRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Order("name").Find(&rows).Error })
	if err != nil {
		return nil, err
	}
	users := make([]access.User, len(rows))
	for i := range rows {
		users[i] = rows[i].user()
	}
	return users, nil
}

// CountUsers returns the number of accounts, including disabled ones.
func (d *DB) CountUsers(ctx context.Context) (int64, error) {
	var n int64
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Model(&userRow{}).Count(&n).Error })
	return n, err
}

// NoteLogin records when an account last signed in. The audit log does not contain it.
func (d *DB) NoteLogin(ctx context.Context, id int64, at time.Time) error {
	if err := d.writable(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	return d.classify(ctx, d.write.WithContext(limited).Model(&userRow{}).Where("id = ?", id).UpdateColumn("last_login",
		newRowTime(at)).Error)
}
