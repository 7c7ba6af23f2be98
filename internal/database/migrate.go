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
	"gorm.io/gorm"

	"sluice/migrations"
)

// migrationLock is the Postgres advisory lock under which nodes migrate one at
// a time: "sluice" in ASCII.
const migrationLock = 0x736c75696365

// stepsTable holds the applied steps. Builds before 1.0.0 had theirs in earlierTable, with other steps.
const (
	stepsTable   = "schema_steps"
	earlierTable = "goose_db_version"
)

// ErrSchema means that the database has a schema which this build does not know.
var ErrSchema = errors.New("the rules database has another schema")

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

// Migrate brings the schema up to date. Any number of nodes may call it at once: on Postgres they take turns under a
// session lock, on SQLite each step is one transaction and the second caller finds it done. Errors: ErrUnavailable if
// the database is unavailable or busy; ErrSchema if this build does not know the schema, which stays unchanged; any
// other error is a problem of the schema. On a read replica Migrate changes nothing, and the error is ErrUnavailable
// until the primary has migrated, unless it is ErrSchema.
func (d *DB) Migrate(ctx context.Context) error {
	replica, err := d.findReplica(ctx)
	if err != nil {
		return err
	}
	if replica {
		return d.checkSchema(ctx)
	}
	return d.migrate(ctx, func(ctx context.Context, p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
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
	err := d.knownSchema(limited)
	if err != nil {
		return err
	}
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
		return goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithTableName(stepsTable),
			goose.WithDisableGlobalRegistry(true))
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
	return goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithTableName(stepsTable),
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
}

// knownSchema returns ErrSchema if a build before 1.0.0 made the database. Steps of a newer version only add what nodes
// of this one need not know.
func (d *DB) knownSchema(ctx context.Context) error {
	exists := "SELECT to_regclass(?) IS NOT NULL"
	if d.dialect == dialectSQLite {
		exists = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)"
	}
	var steps, ours, there bool
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return errors.Join(tx.Raw(exists, earlierTable).Scan(&steps).Error,
			tx.Raw(exists, revisionRow{}.TableName()).Scan(&ours).Error, tx.Raw(exists, stepsTable).Scan(&there).Error)
	})
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if steps && ours && !there { // another program may have a table of this name
		return fmt.Errorf("%w: a build before 1.0.0 made it, and nothing was changed. Run 'sluice rules export' with that "+
			"build, start this one on an empty database or data folder, then run 'sluice rules apply'", ErrSchema)
	}
	return nil
}
