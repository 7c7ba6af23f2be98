package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"sluice/rules"
)

// Replica reports whether the database was a read replica (a Postgres standby) when it last answered Migrate or
// Versions. On a replica every change returns a *rules.ReplicaError, Listen waits, and the nodes of the primary do the
// work in the background, such as deleting expired rows. The next Versions detects that a replica was promoted, or that
// a primary became a replica.
func (d *DB) Replica() bool { return d.replica.Load() }

// writable returns the error of a change while the database is a read replica.
func (d *DB) writable() error {
	if d.replica.Load() {
		return &rules.ReplicaError{Primary: d.primaryURL}
	}
	return nil
}

// noteReplica notes whether the database is a read replica, and logs a change of that on a node that follows the
// database. A command, which does not follow it, logs nothing: its error says where to make changes.
func (d *DB) noteReplica(ctx context.Context, replica bool) {
	d.replica.Store(replica)
	if d.loggedReplica.Swap(replica) == replica {
		return
	}
	if replica {
		var attrs []slog.Attr
		if d.primaryURL != "" {
			attrs = append(attrs, slog.String("write_at", d.primaryURL))
		}
		d.log.LogAttrs(ctx, slog.LevelWarn, "the rules database is a read replica: this node follows it by polling and "+
			"refuses changes", attrs...)
		return
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "the rules database is a primary now: this node accepts changes")
}

// findReplica asks the database whether it is a read replica.
func (d *DB) findReplica(ctx context.Context) (bool, error) {
	if d.dialect != dialectPostgres {
		return false, nil
	}
	var replica bool
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Raw("SELECT pg_is_in_recovery()").Scan(&replica).Error
	})
	if err == nil {
		d.replica.Store(replica)
	}
	return replica, err
}

// errOldReplica means that a read replica cannot be read yet.
var errOldReplica = errors.New("the rules database is a read replica with an older schema; run 'sluice migrate up' " +
	"at the primary, or start a node there")

// checkSchema returns an error unless a replica has the schema of this build: ErrSchema as on a primary. It asks for
// the newest step itself, because the provider would first create the table of steps.
func (d *DB) checkSchema(ctx context.Context) error {
	if err := d.knownSchema(ctx); err != nil {
		return err
	}
	p, err := d.provider()
	if err != nil {
		return err
	}
	var has int64
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		var there bool
		if err := tx.Raw("SELECT to_regclass('" + stepsTable + "') IS NOT NULL").Scan(&there).Error; err != nil || !there {
			return err
		}
		return tx.Raw("SELECT max(version_id) FROM " + stepsTable + " WHERE is_applied").Scan(&has).Error
	})
	if err != nil {
		return fmt.Errorf("check the schema: %w", err)
	}
	for _, source := range p.ListSources() {
		if source.Version > has {
			return unavailable(errOldReplica)
		}
	}
	return nil
}
