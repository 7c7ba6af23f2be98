package database

import (
	"context"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/field"
)

// RuleHistory returns the versions of a rule, newest first, each with its changes. A deleted rule
// still has its history; ErrNotFound is for an id that never existed. limit below 1 means 50 and
// above 500 means 500. The result continues below the version before; 0 starts at the newest.
func (d *DB) RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error) {
	if limit < 1 {
		limit = defaultPageSize
	}
	limit = min(limit, maxPageSize)
	var rows []revisionRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		q := tx.Where("rule_id = ?", id)
		if before > 0 {
			q = q.Where("version < ?", before)
		}
		// One more than asked for: the changes of the last one are against it.
		return q.Order("version DESC").Limit(limit + 1).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 && before <= 0 {
		return nil, rules.ErrNotFound
	}
	return revisionsOf(rows, limit), nil
}

// LastNames returns the names that rules have, or had when they were deleted, with one query. Ids
// that never existed are left out.
func (d *DB) LastNames(ctx context.Context, ids []int64) (map[int64]string, error) {
	names := make(map[int64]string, len(ids))
	if len(ids) == 0 {
		return names, nil
	}
	var rows []revisionRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		last := tx.Model(&revisionRow{}).Select("rule_id, MAX(version)").Where("rule_id IN ?", ids).Group("rule_id")
		return tx.Where("(rule_id, version) IN (?)", last).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		names[rows[i].RuleID] = rows[i].revision().Rule.Name
	}
	return names, nil
}

// revisionsOf converts rows, newest first, and compares each with the next one.
func revisionsOf(rows []revisionRow, limit int) []rules.Revision {
	revs := make([]rules.Revision, len(rows))
	for i := range rows {
		revs[i] = rows[i].revision()
	}
	for i := range revs {
		switch {
		case revs[i].Action == actionDelete:
			revs[i].Changes = rules.Diff(&revs[i].Rule, nil)
		case i+1 < len(revs):
			revs[i].Changes = rules.Diff(&revs[i+1].Rule, &revs[i].Rule)
		default:
			revs[i].Changes = rules.Diff(nil, &revs[i].Rule)
		}
		if revs[i].Changes == nil {
			revs[i].Changes = []field.Change{}
		}
	}
	return revs[:min(len(revs), limit)]
}
