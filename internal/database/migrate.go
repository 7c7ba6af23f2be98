package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sluice/migrations"
)

// migrationLock is the Postgres advisory lock under which nodes migrate one at
// a time: "sluice" in ASCII.
const migrationLock = 0x736c75696365

// sqliteMigrateTries bounds how often a migration of an SQLite file restarts after losing a race
// with another process. Every loss means that the other process made progress.
const sqliteMigrateTries = 20

// Migration is one numbered step of the schema.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"` // the file's name
	// AppliedAt is nil for a pending step.
	AppliedAt *time.Time `json:"applied_at"`
}

// Migrate brings the schema up to date. Any number of nodes may call it at once: on Postgres they
// take turns under a session lock, on SQLite each step is one transaction and the second caller
// finds it done. Errors: ErrUnavailable if the database is unavailable or busy, else a problem of
// the schema. Migrate restores data that an earlier MigrateDown set aside. On a read replica it changes nothing, and
// the error is ErrUnavailable until the primary has migrated.
func (d *DB) Migrate(ctx context.Context) error {
	replica, err := d.findReplica(ctx)
	if err != nil {
		return err
	}
	if replica {
		return d.checkSchema(ctx)
	}
	err = d.migrate(ctx, func(ctx context.Context, p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return d.restore(ctx)
}

// MigrateDown reverts every step above version. It sets aside data that the schema of that version
// cannot hold, for the next Migrate, and disables and logs the rules that would apply to more
// requests without it. Version 0 reverts everything and deletes all data.
func (d *DB) MigrateDown(ctx context.Context, version int64) error {
	if _, err := d.findReplica(ctx); err != nil {
		return err
	}
	if err := d.writable(); err != nil {
		return err
	}
	if version > 0 && version < stepShed {
		// From the newest schema: only that can be read whole.
		if err := d.Migrate(ctx); err != nil {
			return err
		}
		if err := d.park(ctx, version); err != nil {
			return err
		}
	}
	err := d.migrate(ctx, func(ctx context.Context, p *goose.Provider) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
	if err == nil && version == 0 {
		err = d.dropParked(ctx)
	}
	return err
}

// Migrations lists the applied and pending steps in order.
func (d *DB) Migrations(ctx context.Context) ([]Migration, error) {
	var list []Migration
	err := d.migrate(ctx, func(ctx context.Context, p *goose.Provider) error {
		status, err := p.Status(ctx)
		list = list[:0]
		for _, s := range status {
			m := Migration{Version: s.Source.Version, Name: path.Base(s.Source.Path)}
			if s.State == goose.StateApplied {
				at := s.AppliedAt.UTC().Truncate(time.Millisecond)
				m.AppliedAt = &at
			}
			list = append(list, m)
		}
		return err
	})
	return list, err
}

func (d *DB) migrate(ctx context.Context, run func(context.Context, *goose.Provider) error) error {
	limited, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	tries := 1
	if d.dialect == dialectSQLite {
		tries = sqliteMigrateTries
	}
	var err error
	for ; tries > 0; tries-- {
		var p *goose.Provider
		if p, err = d.provider(); err != nil {
			return err
		}
		if err = run(limited, p); err == nil {
			return nil
		}
		if limited.Err() != nil {
			break
		}
	}
	return d.classify(ctx, fmt.Errorf("migrate: %w", err))
}

// provider is created for every run, because goose caches state in it.
func (d *DB) provider() (*goose.Provider, error) {
	pool, err := d.write.DB()
	if err != nil {
		return nil, err
	}
	if d.dialect == dialectSQLite {
		files, err := fs.Sub(migrations.SQLite, "sqlite")
		if err != nil {
			return nil, err
		}
		return goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithDisableGlobalRegistry(true))
	}
	files, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(migrationLock),
		lock.WithLockTimeout(1, uint64(migrateTimeout/time.Second)),
	)
	if err != nil {
		return nil, errors.Join(errors.New("migration lock"), err)
	}
	return goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true))
}
