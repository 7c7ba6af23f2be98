package database

import (
	"context"
	"time"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
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

// RulesBackTo returns the change that leads from the current rules back to those of an instant, without pools, profiles
// and overrides. ok is false, and the change is empty, if more than most rules have changed since then.
func (d *DB) RulesBackTo(ctx context.Context, at time.Time, most int) (back match.Delta, ok bool, err error) {
	var ids []int64
	var rows []revisionRow
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		err := tx.Model(&revisionRow{}).Where("at > ?", newRowTime(at)).Distinct().Limit(most+1).
			Pluck("rule_id", &ids).Error
		if err != nil || len(ids) == 0 || len(ids) > most {
			return err
		}
		last := tx.Model(&revisionRow{}).Select("rule_id, MAX(version)").
			Where("rule_id IN ? AND at <= ?", ids, newRowTime(at)).Group("rule_id")
		return tx.Where("(rule_id, version) IN (?)", last).Find(&rows).Error
	})
	if err != nil || len(ids) > most {
		return back, false, err
	}
	back.Removed = ids // but for those that existed
	for i := range rows {
		if rev := rows[i].revision(); rev.Action != actionDelete {
			back.Changed = append(back.Changed, rev.Rule)
		}
	}
	return back, true, nil
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
