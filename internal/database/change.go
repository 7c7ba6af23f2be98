package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"sluice/rules"
)

// What a change is about: the rows of versions, and the payload of a
// notification.
const (
	areaRules     = "rules"
	areaTokens    = "tokens"
	areaOverrides = "overrides"
)

// floorOverrides is the row of versions with the last change of overrides whose
// tombstones are gone.
const floorOverrides = "overrides_floor"

// What an audit entry is about.
const (
	subjectRule  = "rule"
	subjectToken = "token"
	subjectPool  = "pool"
)

// Actions of revisions and audit entries.
const (
	actionCreate   = "create"
	actionUpdate   = "update"
	actionDelete   = "delete"
	actionRollback = "rollback"
	actionImport   = "import"
	actionRevoke   = "revoke"
	actionPromote  = "promote"
)

// channel is where Postgres tells the other nodes of a change.
const channel = "sluice_changes"

// insertBatch is how many rows a statement handles at most. Postgres takes up to
// 65,535 parameters a statement.
const insertBatch = 500

// sqliteParameters is how many parameters an INSERT on SQLite has at most. The
// driver looks each one up among all the others, so that their time grows with the
// square of their number.
const sqliteParameters = 512

// insertRows stores rows, many with each statement, and gives them their ids.
func insertRows[T any](tx *gorm.DB, rows []T) error {
	batch := insertBatch
	if dialect(tx.Name()) == dialectSQLite {
		statement := gorm.Statement{DB: tx}
		if err := statement.Parse(new(T)); err != nil {
			return err
		}
		batch = max(1, sqliteParameters/len(statement.Schema.DBNames))
	}
	return tx.CreateInBatches(rows, batch).Error
}

// change is one transaction in the making. Its revisions and audit entries are
// written many at a time, the last ones at the end.
type change struct {
	tx    *gorm.DB
	actor rules.Actor
	at    stamp
	// version is the one that the change makes of its area, and marks its rows.
	version   int64
	revisions []revisionRow
	entries   []auditRow
	// overrides is the version that the change makes of the overrides, if it deletes
	// rules with theirs.
	overrides int64
	// pools are the names of all pools; nil until a rule names one.
	pools map[string]bool
	// patterns is how many instructions the change adds to conditions.
	patterns int
}

// change runs fn in one transaction that ends with the audit entries it
// recorded and a notification. The versions row is bumped first: whoever holds
// it is the only writer, so ids, versions and audit entries are in the order of
// the commits and two plans cannot wait for each other.
//
// When the connection is lost during the commit itself the error is
// rules.ErrUnavailable although the change may have happened; the version tells.
func (d *DB) change(ctx context.Context, actor rules.Actor, area string, timeout time.Duration, fn func(*change) error) error {
	if actor.Kind == "" || actor.Name == "" {
		return ErrNoActor
	}
	if err := rules.CheckReason(actor.Reason); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case d.writers <- struct{}{}:
		defer func() { <-d.writers }()
	case <-limited.Done():
		return busy(limited, d.classify(ctx, limited.Err()))
	}
	// waits: if time ends now, another change was in the way. On Postgres it is only
	// known once the server has answered BEGIN.
	waits := d.dialect == dialectSQLite
	err := d.classify(ctx, d.write.WithContext(limited).Transaction(func(tx *gorm.DB) error {
		waits = true
		version, err := bump(tx, area)
		if err != nil {
			return err
		}
		waits = false
		c := &change{tx: tx, actor: actor, at: d.stampNow(), version: version}
		if err := fn(c); err != nil {
			return err
		}
		if err := c.checkPatterns(); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		return d.notify(tx, area)
	}))
	if waits {
		return busy(limited, err)
	}
	return err
}

// busy marks the error of a write that waited for another one until its time was
// over.
func busy(limited context.Context, err error) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) && errors.Is(err, rules.ErrUnavailable) {
		return fmt.Errorf("%w: %w", rules.ErrBusy, err)
	}
	return err
}

// errNoVersions: someone removed a row that the first migration made.
var errNoVersions = errors.New("the table versions lacks a row")

// bump makes the next version of an area, to which the database gives its stamp.
func bump(tx *gorm.DB, area string) (int64, error) {
	var versions []int64
	if err := tx.Raw("UPDATE versions SET version = version + 1 WHERE name = ? RETURNING version", area).Scan(&versions).Error; err != nil {
		return 0, err
	}
	if len(versions) != 1 {
		return 0, unavailable(errNoVersions)
	}
	return versions[0], nil
}

// notify is delivered by Postgres when the transaction commits, and not at all
// when it does not.
func (d *DB) notify(tx *gorm.DB, area string) error {
	if d.dialect != dialectPostgres {
		return nil
	}
	return tx.Exec("SELECT pg_notify(?, ?)", channel, area).Error
}

// flush writes what was recorded.
func (c *change) flush() error {
	if err := insertRows(c.tx, c.revisions); err != nil {
		return err
	}
	if err := insertRows(c.tx, c.entries); err != nil {
		return err
	}
	c.revisions, c.entries = c.revisions[:0], c.entries[:0]
	return nil
}

// ruleDetails are the details of an audit entry about a rule.
type ruleDetails struct {
	Version int64          `json:"version"`
	Changes []rules.Change `json:"changes"`
	Reason  string         `json:"reason,omitempty"`
}

// recordRule records a revision and an audit entry: was is nil for a creation,
// is is nil for a deletion, version is the new one.
func (c *change) recordRule(action string, version int64, was, is *rules.Rule) error {
	subject := is
	if subject == nil {
		subject = was
	}
	snapshot, err := json.Marshal(subject)
	if err != nil {
		return err
	}
	c.revisions = append(c.revisions, revisionRow{
		RuleID: subject.ID, Version: version, Action: action,
		ActorKind: c.actor.Kind, ActorName: c.actor.Name, At: c.at, Rule: string(snapshot), Reason: c.actor.Reason,
	})
	return c.record(action, subjectRule, subject.ID, subject.Name, ruleDetails{Version: version, Changes: rules.Diff(was, is), Reason: c.actor.Reason})
}

// record records an audit entry; details are stored as JSON.
func (c *change) record(action, kind string, id int64, name string, details any) error {
	text, err := json.Marshal(details)
	if err != nil {
		return err
	}
	c.entries = append(c.entries, auditRow{
		At: c.at, ActorKind: c.actor.Kind, ActorName: c.actor.Name, Action: action,
		SubjectKind: kind, SubjectID: id, SubjectName: name, Details: string(text),
	})
	if len(c.entries) < insertBatch {
		return nil
	}
	return c.flush()
}
