package app

import (
	"context"
	"fmt"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
)

// NewUser is what to make of an account. By is who makes it, for the audit log.
type NewUser struct {
	Name     string
	Role     access.Role
	Password string
	By       string
}

// CreateUser makes an account for the console, in a database that it brings up to
// date first.
func CreateUser(ctx context.Context, cfg config.Storage, want NewUser) (u access.User, err error) {
	if err := access.CheckNewPassword(want.Name, want.Password); err != nil {
		return u, fmt.Errorf("the password %w", err)
	}
	hash, err := hashPassword(ctx, want.Password)
	if err != nil {
		return u, err
	}
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		u, err = db.CreateUser(ctx, cliActor(want.By), access.User{Name: want.Name, Role: want.Role, PasswordHash: hash}, false)
		return err
	})
	return u, err
}

// Users lists every account, disabled ones too.
func Users(ctx context.Context, cfg config.Storage) (list []access.User, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		list, err = db.ListUsers(ctx)
		return err
	})
	return list, err
}

// DisableUser keeps an account out and ends its sessions at once.
func DisableUser(ctx context.Context, cfg config.Storage, name, by string) (access.User, error) {
	return changeUser(ctx, cfg, name, by, func(u *access.User) { u.Disabled = true })
}

// SetPassword gives an account another password and ends its sessions at once.
func SetPassword(ctx context.Context, cfg config.Storage, name, password, by string) (access.User, error) {
	if err := access.CheckNewPassword(name, password); err != nil {
		return access.User{}, fmt.Errorf("the password %w", err)
	}
	hash, err := hashPassword(ctx, password)
	if err != nil {
		return access.User{}, err
	}
	return changeUser(ctx, cfg, name, by, func(u *access.User) { u.PasswordHash = hash })
}

func hashPassword(ctx context.Context, password string) (string, error) {
	hash, err := access.NewHasher().HashPassword(ctx, access.LaneSignedIn, password)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return hash, nil
}

func changeUser(ctx context.Context, cfg config.Storage, name, by string, edit func(*access.User)) (u access.User, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		if u, err = db.GetUserByName(ctx, name); err != nil {
			return fmt.Errorf("account %q: %w", name, err)
		}
		edit(&u)
		u, err = db.UpdateUser(ctx, cliActor(by), u)
		return err
	})
	return u, err
}
