package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/rules"
)

// commandTimeout bounds a command on the rules database, including the wait for a migration by another process.
const commandTimeout = 2 * time.Minute

// withDatabase opens the rules database for one command and closes it afterwards. A
// server may use the database at the same time.
func withDatabase(ctx context.Context, cfg config.Storage, use func(context.Context, *database.DB) error) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if !cfg.Postgres() {
		if err := createDataDir(cfg.DataDir); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	files, err := openSecretFiles(&cfg, log, time.Now)
	if err != nil {
		return err
	}
	where := databaseOptions(&cfg, files[&cfg.DatabaseURL])
	where.Log = log
	db, err := database.Open(ctx, where)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return use(ctx, db)
}

// MigrateUp migrates the schema of the rules database to the latest version and lists
// its steps. Running servers are not affected.
func MigrateUp(ctx context.Context, cfg config.Storage) (steps []database.Migration, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		steps, err = db.Migrations(ctx)
		return err
	})
	return steps, err
}

// Migrations lists the applied and pending steps of the schema.
func Migrations(ctx context.Context, cfg config.Storage) (steps []database.Migration, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		steps, err = db.Migrations(ctx)
		return err
	})
	return steps, err
}

// NewToken is what to make of a token. Lifetime 0 means that it never expires.
type NewToken struct {
	Name     string
	Scopes   []access.Scope
	Lifetime time.Duration
	// By is the actor for the audit log.
	By string
}

// CreateToken creates a token and returns it with its secret. The secret is not stored
// and cannot be shown again.
func CreateToken(ctx context.Context, cfg config.Storage, want NewToken, now time.Time) (token access.Token,
	secret string, err error) {
	secret, hash := access.NewSecret()
	token = access.Token{Name: want.Name, Scopes: want.Scopes, Hash: hash}
	if want.Lifetime > 0 {
		at := now.Add(want.Lifetime).UTC().Truncate(time.Millisecond)
		token.ExpiresAt = &at
	}
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		token, err = db.CreateToken(ctx, cliActor(want.By), token)
		return err
	})
	if err != nil {
		return access.Token{}, "", err
	}
	return token, secret, nil
}

// Tokens lists all tokens, including revoked and expired ones.
func Tokens(ctx context.Context, cfg config.Storage) (list []access.Token, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		list, err = db.ListTokens(ctx)
		return err
	})
	return list, err
}

// RevokeToken revokes the valid token with that name, or else with that id in decimal. It is
// effective on running servers within a second.
func RevokeToken(ctx context.Context, cfg config.Storage, nameOrID, by string) (token access.Token, err error) {
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		list, err := db.ListTokens(ctx)
		if err != nil {
			return err
		}
		if token, err = findToken(list, nameOrID); err != nil {
			return err
		}
		return db.RevokeToken(ctx, cliActor(by), token.ID)
	})
	return token, err
}

// findToken returns the token with a name that is neither revoked nor rotated, or else the token with an id in decimal
// that is not revoked.
func findToken(list []access.Token, nameOrID string) (access.Token, error) {
	for _, is := range []func(*access.Token) bool{
		func(t *access.Token) bool { return t.Name == nameOrID && t.ReplacedAt == nil },
		func(t *access.Token) bool { return fmt.Sprint(t.ID) == nameOrID },
	} {
		for i := range list {
			if list[i].RevokedAt == nil && is(&list[i]) {
				return list[i], nil
			}
		}
	}
	return access.Token{}, fmt.Errorf("token %q: %w or already revoked", nameOrID, rules.ErrNotFound)
}

// RotateToken replaces the valid token with that name, or else with that id in decimal, by a new one and returns both,
// with the secret of the new one. The old one stays valid for the overlap, from database.MinOverlap to MaxOverlap.
func RotateToken(ctx context.Context, cfg config.Storage, nameOrID string, overlap time.Duration, by string) (old,
	replacement access.Token, secret string, err error) {
	secret, hash := access.NewSecret()
	err = withDatabase(ctx, cfg, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		list, err := db.ListTokens(ctx)
		if err != nil {
			return err
		}
		if old, err = findToken(list, nameOrID); err != nil {
			return err
		}
		old, replacement, err = db.RotateToken(ctx, cliActor(by), old.ID, hash, overlap)
		return err
	})
	if err != nil {
		return access.Token{}, access.Token{}, "", err
	}
	return old, replacement, secret, nil
}

func cliActor(name string) rules.Actor {
	if name == "" {
		name = "unknown"
	}
	return rules.Actor{Kind: "cli", Name: name}
}

// NewUser describes an account to create. By is the actor for the audit log.
type NewUser struct {
	Name     string
	Role     access.Role
	Password string
	By       string
}

// CreateUser creates a console account. It migrates the database first.
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
		u, err = db.CreateUser(ctx, cliActor(want.By), access.User{Name: want.Name, Role: want.Role, PasswordHash: hash},
			false)
		return err
	})
	return u, err
}

// Users lists all accounts, including disabled ones.
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

// DisableUser disables an account and ends its sessions at once.
func DisableUser(ctx context.Context, cfg config.Storage, name, by string) (access.User, error) {
	return updateUser(ctx, cfg, name, by, func(u *access.User) { u.Disabled = true })
}

// SetPassword changes the password of an account and ends its sessions at once.
func SetPassword(ctx context.Context, cfg config.Storage, name, password, by string) (access.User, error) {
	if err := access.CheckNewPassword(name, password); err != nil {
		return access.User{}, fmt.Errorf("the password %w", err)
	}
	hash, err := hashPassword(ctx, password)
	if err != nil {
		return access.User{}, err
	}
	return updateUser(ctx, cfg, name, by, func(u *access.User) { u.PasswordHash = hash })
}

func hashPassword(ctx context.Context, password string) (string, error) {
	hash, err := access.NewHasher().HashPassword(ctx, access.LaneSignedIn, password)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return hash, nil
}

func updateUser(ctx context.Context, cfg config.Storage, name, by string, edit func(*access.User)) (u access.User,
	err error) {
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
