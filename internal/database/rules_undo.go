package database

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

// UndoBulk restores the content of rules before a bulk edit, in one transaction with one audit entry. bulk is the
// BulkResult.Bulk of the edit. A rule that was edited or deleted since then is skipped and reported; the others are
// still restored. A rule that was edited since then but has its former content counts as Same. The undoing is a bulk
// edit itself. Errors: ErrNotFound (no such edit), ErrUnavailable; then nothing was restored.
func (d *DB) UndoBulk(ctx context.Context, actor rules.Actor, bulk int64) (rules.BulkResult, error) {
	timeout, err := d.bulkTimeout(ctx, bulk)
	if err != nil {
		return rules.BulkResult{}, err
	}
	var out rules.BulkResult
	err = d.change(ctx, actor, areaRules, timeout, func(c *change) error {
		out = rules.BulkResult{Bulk: c.version}
		c.bulk = &bulkEntry{action: actionRollback}
		err := eachUndone(c.tx, bulk, &out, func(e *edits) error {
			free, err := c.allowed(e, &out)
			if err != nil {
				return err
			}
			out.Changed += len(free.is)
			return c.replaceRules(actionRollback, &free)
		})
		if err == nil && out.Changed == 0 {
			err = errNothing
		}
		return err
	})
	return bulkResult(out, err)
}

// allowed returns the edits without those whose rules are no longer allowed, which it reports in out.
func (c *change) allowed(e *edits, out *rules.BulkResult) (edits, error) {
	admitted := edits{}
	for i := range e.is {
		err := c.admit(&e.was[i], &e.is[i])
		if errors.As(err, new(*field.ValidationError)) {
			out.Skip(e.was[i].ID, e.was[i].Name, err)
			continue
		}
		if err != nil {
			return edits{}, err
		}
		admitted.add(&e.was[i], &e.is[i])
	}
	return c.withoutTaken(&admitted, out)
}

// PlanUndo returns what UndoBulk would do now, with a sample of up to most rules. Errors: as of UndoBulk.
func (d *DB) PlanUndo(ctx context.Context, bulk int64, most int) (rules.UndoPlan, error) {
	timeout, err := d.bulkTimeout(ctx, bulk)
	if err != nil {
		return rules.UndoPlan{}, err
	}
	var out rules.UndoPlan
	err = d.snapshot(ctx, timeout, func(tx *gorm.DB) error {
		out = rules.UndoPlan{}
		c := &change{tx: tx} // which writes nothing
		return eachUndone(tx, bulk, &out.BulkResult, func(e *edits) error {
			free, err := c.allowed(e, &out.BulkResult)
			if err != nil {
				return err
			}
			out.Changed += len(free.is)
			for i := range free.is {
				if len(out.Sample) == most {
					break
				}
				out.Sample = append(out.Sample,
					rules.UndoneRule{Rule: free.was[i], Changes: rules.Diff(&free.was[i], &free.is[i])})
			}
			return nil
		})
	})
	if err != nil {
		return rules.UndoPlan{}, err
	}
	return out, nil
}

// bulkTimeout is the timeout for undoing a bulk edit; ErrNotFound if there was none.
func (d *DB) bulkTimeout(ctx context.Context, bulk int64) (time.Duration, error) {
	found, err := d.ListAudit(ctx, audit.Query{SubjectKind: audit.SubjectBulk, SubjectID: bulk, Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 0, rules.ErrNotFound
	}
	return d.callTimeout + time.Duration(found[0].Bulk().Rules/planRate)*time.Second, nil
}

// undoneRow is a rule of a bulk edit with the versions that the edit made; those are several if the edit renamed a rule
// that it names in replaces.
type undoneRow struct {
	RuleID      int64
	First, Last int64
}

// eachUndone calls do with the rules of a bulk edit and their former content, a batch at a time, and reports in out the
// rules that cannot be restored or need not be.
func eachUndone(tx *gorm.DB, bulk int64, out *rules.BulkResult, do func(*edits) error) error {
	for after := int64(0); ; {
		var rows []undoneRow
		err := tx.Model(&revisionRow{}).Select("rule_id, MIN(version) AS first, MAX(version) AS last").
			Where("bulk = ? AND rule_id > ?", bulk, after).Group("rule_id").Order("rule_id").Limit(insertBatch).
			Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].RuleID
		e, err := undoneBatch(tx, bulk, rows, out)
		if err != nil {
			return err
		}
		if err := do(&e); err != nil {
			return err
		}
	}
}

// undoneBatch reads the rules of one batch and their former content.
func undoneBatch(tx *gorm.DB, bulk int64, rows []undoneRow, out *rules.BulkResult) (e edits, err error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].RuleID
	}
	var now []ruleRow
	if err := tx.Where("id IN ?", ids).Find(&now).Error; err != nil {
		return e, err
	}
	stored := make(map[int64]*ruleRow, len(now))
	for i := range now {
		stored[now[i].ID] = &now[i]
	}
	var past []revisionRow
	former := tx.Model(&revisionRow{}).Select("rule_id, MIN(version) - 1").Where("bulk = ? AND rule_id IN ?", bulk, ids).
		Group("rule_id")
	if err := tx.Where("(rule_id, version) IN (?)", former).Find(&past).Error; err != nil {
		return e, err
	}
	before := make(map[int64]rules.Rule, len(past))
	for i := range past {
		before[past[i].RuleID] = past[i].revision().Rule
	}
	for _, row := range rows {
		target, known := before[row.RuleID]
		is := stored[row.RuleID]
		if is == nil || !known {
			out.Skip(row.RuleID, target.Name, rules.ErrNotFound)
			continue
		}
		was := is.rule()
		if len(rules.Diff(&was, &target)) == 0 {
			out.Same++
			continue
		}
		if was.Version != row.Last {
			out.Skip(was.ID, was.Name, rules.ErrStale)
			continue
		}
		if target, err = checked(target); err != nil {
			out.Skip(was.ID, was.Name, err)
			continue
		}
		e.add(&was, &target)
	}
	return e, nil
}
