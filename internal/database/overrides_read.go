package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

const (
	// maxOverridePage bounds a page of overrides; exports read large ones.
	maxOverridePage = 5000
	// searchTimeout bounds a text search in all overrides of a rule, which reads all of them.
	searchTimeout = 4 * time.Second
)

// ListOverrides returns one page of the overrides of a rule or of all rules, ordered by id; none for a rule that
// does not exist. A page size below 1 means 50.
func (d *DB) ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error) {
	size := q.PageSize
	if size < 1 {
		size = defaultPageSize
	}
	size = min(size, maxOverridePage)
	if !storable(q.Text) || !storable(q.Match) {
		return rules.OverridePage{Overrides: []rules.Override{}}, nil // no row can hold it
	}
	timeout := d.callTimeout
	if q.Text != "" || size > maxPageSize {
		timeout = max(timeout, searchTimeout)
	}
	var rows []overrideRow
	err := d.readIn(ctx, timeout, func(tx *gorm.DB) error {
		if tx = tx.Where("id > ?", q.AfterID); q.AllRules {
			tx = tx.Where("rule_id IN (SELECT id FROM rules)") // those of a deleted rule are deleted later
		} else {
			tx = tx.Where("rule_id = ?", q.RuleID)
		}
		if q.Match != "" {
			tx = tx.Where("match_key = ? AND is_prefix = ?", q.Match, q.Prefix)
		}
		if q.Text != "" {
			like := "%" + likeEscaper.Replace(q.Text) + "%"
			const has = ` LIKE lower(?) ESCAPE '\'`
			tx = tx.Where("(lower(key)"+has+" OR lower(reason)"+has+" OR match_key IN ?)", like, like,
				q.Around)
		}
		if !q.IncludeExpired {
			tx = tx.Where("(expires_at IS NULL OR expires_at > ?)", d.rowTimeNow())
		}
		return tx.Order("id").Limit(size + 1).Find(&rows).Error
	})
	if err != nil {
		return rules.OverridePage{}, err
	}
	p := rules.OverridePage{Overrides: make([]rules.Override, min(len(rows), size)), More: len(rows) > size}
	for i := range p.Overrides {
		p.Overrides[i] = rows[i].override()
	}
	return p, nil
}

// GetOverride returns an override of a rule, or ErrNotFound.
func (d *DB) GetOverride(ctx context.Context, ruleID, id int64) (rules.Override, error) {
	var row overrideRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("rule_id = ? AND id = ?", ruleID, id).Take(&row).Error
	})
	if err != nil {
		return rules.Override{}, err
	}
	return row.override(), nil
}

// LoadOverrides calls each for every row that a node with the version since lacks, and returns the current version.
// full reports that all rows follow, because since is NoVersion, too old, or from another history; the node must then
// drop its overrides. Otherwise deletions are passed too, each before the rows stored later under its key. It reads one
// moment. An error of each ends it.
func (d *DB) LoadOverrides(ctx context.Context, since Version, begin func(full bool),
	each func(override.Row)) (is Version, err error) {
	err = d.longSnapshot(ctx, func(tx *gorm.DB, progress func()) error {
		each := func(s override.Row) {
			progress()
			each(s)
		}
		v, err := versionsIn(tx)
		if err != nil {
			return err
		}
		is = v.Overrides
		known, err := continues(tx, areaOverrides, since, is)
		if err != nil {
			return err
		}
		full := !known || since.N < v.overridesFloor
		begin(full)
		if full {
			return eachOverride(tx.Where("rule_id IN (SELECT id FROM rules)"), each)
		}
		if err := eachTombstone(tx.Where("seq > ?", since.N), each); err != nil {
			return err
		}
		return eachOverride(tx.Where("seq > ?", since.N), each)
	})
	return is, err
}

func eachTombstone(tx *gorm.DB, each func(override.Row)) error {
	var rows []tombstoneRow
	if err := tx.Order("seq").Find(&rows).Error; err != nil {
		return err
	}
	for i := range rows {
		each(override.Row{RuleID: rows[i].RuleID, Match: rows[i].MatchKey, Prefix: rows[i].IsPrefix, Deleted: true})
	}
	return nil
}

// eachOverride streams rows, because there may be millions.
func eachOverride(tx *gorm.DB, each func(override.Row)) (err error) {
	rows, err := tx.Model(&overrideRow{}).
		Select("id", "rule_id", "match_key", "is_prefix", "limit_count", "burst", "unlimited", "blocked",
			"calendar", "expires_at").
		Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s override.Row
		var limit, burst sql.NullInt64
		var calendar *string
		var expires rowTime
		if err := rows.Scan(&s.ID, &s.RuleID, &s.Match, &s.Prefix, &limit, &burst, &s.Unlimited, &s.Blocked,
			&calendar, &expires); err != nil {
			return err
		}
		s.Limit, s.Burst = orNone(limit), orNone(burst)
		if !expires.IsZero() {
			s.ExpiresMS = expires.UnixMilli()
		}
		if calendar != nil {
			var o rules.Override
			loadCalendar(calendar, &o)
			s.Calendar = match.OverrideRow(&o).Calendar
		}
		each(s)
	}
	return rows.Err()
}

func orNone(n sql.NullInt64) int64 {
	if !n.Valid {
		return -1
	}
	return n.Int64
}
