package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/field"
)

// The areas of changes: the rows of versions, and the payload of a notification.
const (
	areaRules     = "rules"
	areaTokens    = "tokens"
	areaOverrides = "overrides"
	areaWebhooks  = "webhooks"
)

// floorOverrides is the row of versions with the last change of overrides whose tombstones were
// deleted.
const floorOverrides = "overrides_floor"

// Subjects of audit entries. Those of pools and profiles are the nouns of their kinds, that of an edit of many rules is
// audit.SubjectBulk.
const (
	subjectRule  = "rule"
	subjectToken = "token"
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
	actionRotate   = "rotate"
	// The two of a profile together with its token.
	actionConnect    = "connect"
	actionDisconnect = "disconnect"
)

// channel is the Postgres channel for notifying the other nodes of a change.
const channel = "sluice_changes"

// insertBatch is the largest number of rows per statement. Postgres accepts up to 65,535
// parameters per statement.
const insertBatch = 500

// sqliteParameters is the largest number of parameters of an INSERT on SQLite. The driver searches
// all others for each parameter, so the time grows with the square of their number.
const sqliteParameters = 512

// insertRows inserts rows in batches and sets their ids.
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

// change is one open transaction. Its revisions and audit entries are written in batches, the last
// ones at the end.
type change struct {
	tx    *gorm.DB
	actor rules.Actor
	at    rowTime
	// version is the new version of its area, which also marks its rows.
	version   int64
	revisions []revisionRow
	entries   []auditRow
	// overrides is the new version of the overrides, if the change deletes rules with overrides.
	overrides int64
	// pools holds the names of all pools; nil until a rule names one.
	pools map[string]bool
	// descriptors are the columns scope of active rules with a descriptor that the change stores.
	descriptors []string
	// named notes the effects of the change on names in replaces.
	named namedRules
	// patterns is the number of instructions that the change adds to conditions.
	patterns int
	// bulk gathers the only audit entry of an edit of many rules; nil for other changes.
	bulk *bulkEntry
}

// change runs fn in one transaction that ends with the recorded audit entries and a notification.
// It raises the versions row first: whoever holds that row is the only writer, so ids, versions
// and audit entries are in commit order, and two plans cannot deadlock.
//
// If the connection is lost during the commit, the error is rules.ErrUnavailable although the
// change may have happened; the version tells.
func (d *DB) change(ctx context.Context, actor rules.Actor, area string, timeout time.Duration,
	fn func(*change) error) (err error) {
	if d.trace != nil {
		var end func(error)
		ctx, end = d.trace(ctx, "change "+area)
		defer func() { end(err) }()
	}
	if actor.Kind == "" || actor.Name == "" {
		return ErrNoActor
	}
	if err := rules.CheckReason(actor.Reason); err != nil {
		return err
	}
	if err := d.writable(); err != nil {
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
	// waits reports that another change is in the way if the time ends now. On Postgres that is
	// known only once the server has answered BEGIN.
	waits := d.dialect == dialectSQLite
	err = d.classify(ctx, d.write.WithContext(limited).Transaction(func(tx *gorm.DB) error {
		waits = true
		version, err := bump(tx, area)
		if err != nil {
			return err
		}
		waits = false
		c := &change{tx: tx, actor: actor, at: d.rowTimeNow(), version: version}
		if err := fn(c); err != nil {
			return err
		}
		if err := c.settleReplaces(); err != nil {
			return err
		}
		if err := c.checkPatterns(); err != nil {
			return err
		}
		if err := c.checkDescriptors(); err != nil {
			return err
		}
		if err := c.recordBulk(); err != nil {
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

// busy converts the error of a write that waited for another one until its deadline.
func busy(limited context.Context, err error) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) && errors.Is(err, rules.ErrUnavailable) {
		return fmt.Errorf("%w: %w", rules.ErrBusy, err)
	}
	return err
}

// errNoVersions reports that someone deleted a row that the first migration created.
var errNoVersions = errors.New("the table versions lacks a row")

// bump raises the version of an area; the database adds its stamp.
func bump(tx *gorm.DB, area string) (int64, error) {
	var versions []int64
	if err := tx.Raw("UPDATE versions SET version = version + 1 WHERE name = ? RETURNING version",
		area).Scan(&versions).Error; err != nil {
		return 0, err
	}
	if len(versions) != 1 {
		return 0, unavailable(errNoVersions)
	}
	return versions[0], nil
}

// notify sends a notification, which Postgres delivers when the transaction commits, and not at
// all if it does not.
func (d *DB) notify(tx *gorm.DB, area string) error {
	if d.dialect != dialectPostgres {
		return nil
	}
	return tx.Exec("SELECT pg_notify(?, ?)", channel, area).Error
}

// flush writes the recorded entries.
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

// ruleDetails holds the details of an audit entry about a rule.
type ruleDetails struct {
	Version int64          `json:"version"`
	Changes []field.Change `json:"changes"`
	Reason  string         `json:"reason,omitempty"`
	Undoes  int64          `json:"undoes,omitempty"`
}

// recordRule records a revision and an audit entry. was is nil for a creation, is is nil for a
// deletion, version is the new version.
func (c *change) recordRule(action string, version int64, was, is *rules.Rule) error {
	subject := is
	if subject == nil {
		subject = was
	}
	snapshot, err := json.Marshal(subject)
	if err != nil {
		return err
	}
	row := revisionRow{
		RuleID: subject.ID, Version: version, Action: action,
		ActorKind: c.actor.Kind, ActorName: c.actor.Name, At: c.at, Rule: string(snapshot), Reason: c.actor.Reason,
	}
	if c.bulk != nil {
		row.Bulk = &c.version
		c.revisions = append(c.revisions, row)
		return c.noteBulk(subject, version, rules.Diff(was, is))
	}
	c.revisions = append(c.revisions, row)
	return c.record(action, subjectRule, subject.ID, subject.Name, ruleDetails{Version: version,
		Changes: rules.Diff(was, is), Reason: c.actor.Reason, Undoes: c.actor.Undoes})
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
