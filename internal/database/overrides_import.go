package database

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

const (
	// importRate is the number of overrides for which an import gets one more second.
	importRate = 10_000
	// lookupBatch is the number of keys in one lookup.
	lookupBatch = 1000
)

// errDryRun rolls back the transaction of a dry run.
var errDryRun = errors.New("dry run")

// ImportOverrides stores many overrides of one rule in one transaction, all of them or none. It
// replaces overrides with the same key, and leaves one audit entry with the counts. Errors:
// *ValidationError with fields such as line[17].limit, ErrNotFound (no such rule), ErrUnavailable.
func (d *DB) ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport,
	opt match.Options) (rules.OverrideImported, error) {
	im := overrideImport{dialect: d.dialect, in: in, opt: opt, plan: sha256.New()}
	timeout := d.callTimeout + time.Duration(5+len(in.Items)/importRate)*time.Second
	err := d.change(ctx, actor, areaOverrides, timeout, func(c *change) error {
		im.change = c
		if err := im.run(); err != nil {
			return err
		}
		im.done.Plan = hex.EncodeToString(im.plan.Sum(nil))
		if in.Expect != "" && in.Expect != im.done.Plan {
			return rules.ErrStale
		}
		if in.DryRun || im.done.Created+im.done.Updated+im.done.Deleted == 0 {
			return errDryRun
		}
		return c.record(actionOverrideImport, subjectRule, im.rule.ID, im.rule.Name, im.done)
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return rules.OverrideImported{}, err
	}
	im.done.DryRun = in.DryRun
	return im.done, nil
}

// overrideImport is one import in progress.
type overrideImport struct {
	*change
	dialect dialect
	in      rules.OverrideImport
	opt     match.Options
	rule    rules.Rule
	// plan hashes every step.
	plan hash.Hash
	done rules.OverrideImported
}

func (im *overrideImport) run() (err error) {
	if im.rule, err = im.lockedRule(im.in.RuleID, 0); err != nil {
		return err
	}
	if err := im.resolve(); err != nil {
		return err
	}
	if im.in.Prune {
		if err := im.prune(); err != nil {
			return err
		}
	}
	for from := 0; from < len(im.in.Items); from += lookupBatch {
		if err := im.store(im.in.Items[from:min(from+lookupBatch, len(im.in.Items))]); err != nil {
			return err
		}
	}
	return nil
}

// amongKeys selects rows by a JSON array of keys. It uses the index even while the planner has no
// statistics of a table that grows by thousands of rows.
var amongKeys = map[dialect]string{
	dialectPostgres: "rule_id = ? AND match_key = ANY (ARRAY(SELECT json_array_elements_text(?::json)))",
	dialectSQLite:   "rule_id = ? AND match_key IN (SELECT value FROM json_each(?))",
}

// overrideName identifies an override within a rule.
type overrideName struct {
	match  string
	prefix bool
}

// resolve validates every line, and refuses two lines for one key.
func (im *overrideImport) resolve() error {
	var bad []field.Problem
	lines := make(map[overrideName]int, len(im.in.Items))
	for i := range im.in.Items {
		item := &im.in.Items[i]
		item.RuleID = im.in.RuleID
		err := match.ResolveOverride(&item.Override, &im.rule, im.opt, im.at.Time)
		var invalid *field.ValidationError
		switch {
		case errors.As(err, &invalid):
			for _, f := range invalid.Fields {
				bad = append(bad, field.Problem{Field: fmt.Sprintf("line[%d].%s", item.Line, f.Field), Message: f.Message})
			}
		case err != nil:
			return err
		default:
			name := overrideName{item.Match, item.Prefix}
			if first, twice := lines[name]; twice {
				bad = append(bad, field.Problem{Field: fmt.Sprintf("line[%d].key", item.Line),
					Message: fmt.Sprintf("is a duplicate, first seen on line %d", first)})
			}
			lines[name] = item.Line
		}
		if len(bad) >= rules.MaxOverrideErrors {
			break
		}
	}
	if len(bad) > 0 {
		return &field.ValidationError{Fields: bad}
	}
	return nil
}

// step adds a change of an override to the plan. It leaves out the content of the line: whoever
// sends a plan sends the same file.
func (im *overrideImport) step(what string, row *overrideRow) {
	fmt.Fprintf(im.plan, "%s %d %d %q %t\n", what, row.ID, row.Version, row.MatchKey, row.IsPrefix)
}

// store writes one batch.
func (im *overrideImport) store(items []rules.ImportedOverride) error {
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].Match
	}
	names, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	var present []overrideRow
	if err := im.tx.Where(amongKeys[im.dialect], im.in.RuleID, string(names)).Find(&present).Error; err != nil {
		return err
	}
	was := make(map[overrideName]*overrideRow, len(present))
	for i := range present {
		was[overrideName{present[i].MatchKey, present[i].IsPrefix}] = &present[i]
	}
	rows := make([]overrideRow, 0, len(items))
	for i := range items {
		o := &items[i].Override
		old := was[overrideName{o.Match, o.Prefix}]
		var before *rules.Override
		if old != nil {
			im.step("put", old)
			if before = new(old.override()); before.Same(o) {
				im.done.Unchanged++
				continue
			}
		}
		o.BeginCalendar(before, &im.rule, im.at.Time)
		row := overrideRowOf(o)
		row.ID, row.Seq, row.Version, row.CreatedAt, row.UpdatedAt = 0, im.version, 1, im.at, im.at
		if old != nil {
			row.Version = old.Version + 1
			im.done.Updated++
		} else {
			im.step("create", &row)
			im.done.Created++
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	return im.put(rows)
}

// putColumns are the columns that differ between the rows of an import.
const putColumns = "rule_id, key, match_key, is_prefix, limit_count, burst, unlimited, blocked, calendar, reason, " +
	"expires_at, " +
	"version, seq, created_at, updated_at"

// putFrom reads the rows from one JSON array, because thousands of parameters cost more than the rows.
var putFrom = map[dialect]string{
	dialectPostgres: `SELECT ?, j.key, j.match_key, j.is_prefix, j.limit_count, j.burst, j.unlimited, j.blocked,
			j.calendar, j.reason, j.expires_at, j.version, ?, ?, ?
		FROM json_to_recordset(?::json) AS j(key TEXT, match_key TEXT, is_prefix BOOLEAN, limit_count BIGINT,
			burst BIGINT, unlimited BOOLEAN, blocked BOOLEAN,
			calendar TEXT, reason TEXT, expires_at TIMESTAMPTZ, version BIGINT) WHERE TRUE`,
	dialectSQLite: `SELECT ?, j.value->>'key', j.value->>'match_key', j.value->>'is_prefix', j.value->>'limit_count',
		j.value->>'burst', j.value->>'unlimited',
		j.value->>'blocked', j.value->>'calendar', j.value->>'reason', j.value->>'expires_at', j.value->>'version',
		?, ?, ? FROM json_each(?) AS j WHERE TRUE`,
}

// putRow is one element of that array.
type putRow struct {
	Key        string  `json:"key"`
	MatchKey   string  `json:"match_key"`
	IsPrefix   bool    `json:"is_prefix"`
	LimitCount *int64  `json:"limit_count"`
	Burst      *int64  `json:"burst"`
	Unlimited  bool    `json:"unlimited"`
	Blocked    bool    `json:"blocked"`
	Calendar   *string `json:"calendar"`
	Reason     string  `json:"reason"`
	ExpiresAt  *string `json:"expires_at"`
	Version    int64   `json:"version"`
}

// put stores rows and replaces stored rows with the same keys.
func (im *overrideImport) put(rows []overrideRow) error {
	list := make([]putRow, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = putRow{
			Key: r.Key, MatchKey: r.MatchKey, IsPrefix: r.IsPrefix, LimitCount: r.LimitCount, Burst: r.Burst,
			Unlimited: r.Unlimited, Blocked: r.Blocked, Calendar: r.Calendar, Reason: r.Reason, Version: r.Version,
		}
		if r.ExpiresAt != nil {
			text := r.ExpiresAt.UTC().Format(rowTimeLayout)
			list[i].ExpiresAt = &text
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return im.tx.Exec("INSERT INTO rule_overrides ("+putColumns+") "+putFrom[im.dialect]+`
		ON CONFLICT (rule_id, match_key, is_prefix) DO UPDATE SET
		limit_count = excluded.limit_count, burst = excluded.burst, unlimited = excluded.unlimited,
		blocked = excluded.blocked, calendar = excluded.calendar, reason = excluded.reason,
		expires_at = excluded.expires_at, version = excluded.version,
		seq = excluded.seq, updated_at = excluded.updated_at`,
		im.in.RuleID, im.version, im.at, im.at, string(data)).Error
}

// prune deletes the overrides that the file does not name, page by page.
func (im *overrideImport) prune() error {
	named := make(map[overrideName]bool, len(im.in.Items))
	for i := range im.in.Items {
		named[overrideName{im.in.Items[i].Match, im.in.Items[i].Prefix}] = true
	}
	for after := int64(0); ; {
		var rows []overrideRow
		err := im.tx.Select("id", "match_key", "is_prefix", "version").Where("rule_id = ? AND id > ?", im.in.RuleID, after).
			Order("id").Limit(maxOverridePage).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].ID
		var ids []int64
		var stones []tombstoneRow
		for i := range rows {
			if !named[overrideName{rows[i].MatchKey, rows[i].IsPrefix}] {
				im.step("delete", &rows[i])
				ids = append(ids, rows[i].ID)
				stones = append(stones, tombstoneRow{Seq: im.version, RuleID: im.in.RuleID, MatchKey: rows[i].MatchKey,
					IsPrefix: rows[i].IsPrefix, At: im.at})
			}
		}
		if len(ids) == 0 {
			continue
		}
		if err := im.tx.Where("id IN ?", ids).Delete(&overrideRow{}).Error; err != nil {
			return err
		}
		if err := insertRows(im.tx, stones); err != nil {
			return err
		}
		im.done.Deleted += int64(len(ids))
	}
}
