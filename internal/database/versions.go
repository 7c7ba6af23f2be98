package database

import (
	"context"

	"gorm.io/gorm"
)

// Version is one state of an area. N counts its changes. Stamp is random and new with each change:
// a database that lost its last change, in a failover or a restore, reaches the same N again with
// other content, but never the same Stamp.
type Version struct {
	N     int64
	Stamp string
}

// NoVersion is the version of a node that has loaded nothing.
var NoVersion = Version{N: -1}

// Versions holds all versions, so that one small query tells a node whether it is up to date.
type Versions struct {
	Rules, Tokens, Overrides Version
	// Server distinguishes the runs of database servers; empty on SQLite.
	Server string
	// Replica: the database is a read replica.
	Replica bool

	overridesFloor int64
}

// Versions reads the current versions.
func (d *DB) Versions(ctx context.Context) (Versions, error) {
	var v Versions
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		var err error
		v, err = versionsIn(tx)
		return err
	})
	if err == nil {
		d.noteReplica(ctx, v.Replica)
	}
	return v, err
}

// selectVersions reads the rows and the identity of the server. Every role may read the start time
// of a server, and no two servers start within the same microsecond.
func selectVersions(tx *gorm.DB) string {
	if dialect(tx.Name()) == dialectPostgres {
		return "SELECT name, version, stamp, pg_postmaster_start_time()::text AS server, pg_is_in_recovery() AS replica " +
			"FROM versions"
	}
	return "SELECT name, version, stamp, '' AS server, false AS replica FROM versions"
}

func versionsIn(tx *gorm.DB) (Versions, error) {
	var rows []struct {
		Name, Stamp, Server string
		Version             int64
		Replica             bool
	}
	if err := tx.Raw(selectVersions(tx)).Scan(&rows).Error; err != nil {
		return Versions{}, err
	}
	v := Versions{Rules: NoVersion, Tokens: NoVersion, Overrides: NoVersion}
	areas := map[string]*Version{areaRules: &v.Rules, areaTokens: &v.Tokens, areaOverrides: &v.Overrides}
	for _, row := range rows {
		v.Server, v.Replica = row.Server, row.Replica
		if area := areas[row.Name]; area != nil {
			*area = Version{N: row.Version, Stamp: row.Stamp}
		} else if row.Name == floorOverrides {
			v.overridesFloor = row.Version
		}
	}
	for _, area := range areas {
		if area.N < 0 {
			return Versions{}, unavailable(errNoVersions)
		}
	}
	return v, nil
}

// continues reports whether present follows from held by changes that this database has, so that a
// node with held needs only the changes since. It is false if held is too old, or from a history
// that this database lost.
func continues(tx *gorm.DB, area string, held, present Version) (bool, error) {
	if held.N < 0 || held.N > present.N {
		return false, nil
	}
	var n int64
	err := tx.Table("version_history").Where("name = ? AND version = ? AND stamp = ?", area, held.N,
		held.Stamp).Count(&n).Error
	return n > 0, err
}

// keepVersions is the largest number of changes by which a node may be behind and still load only
// changes.
const keepVersions = 100_000

// CleanHistory deletes changes that only nodes further behind need. Any number of nodes may call
// it.
func (d *DB) CleanHistory(ctx context.Context) error {
	if d.Replica() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	return d.classify(ctx, d.write.WithContext(limited).Transaction(func(tx *gorm.DB) error {
		for _, statement := range []string{
			"DELETE FROM version_history WHERE name = 'rules' AND version <= (SELECT version FROM versions WHERE name = " +
				"'rules') - ?",
			"DELETE FROM version_history WHERE name = 'overrides' AND version <= (SELECT version FROM versions WHERE name = " +
				"'overrides') - ?",
			"DELETE FROM rule_tombstones WHERE seq <= (SELECT version FROM versions WHERE name = 'rules') - ?",
		} {
			if err := tx.Exec(statement, keepVersions).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}
