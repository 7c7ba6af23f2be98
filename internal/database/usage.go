package database

import (
	"context"
	"strings"

	"gorm.io/gorm"

	"sluice/internal/usage"
)

var _ usage.Database = (*DB)(nil)

// WriteUsage implements usage.Database.
func (d *DB) WriteUsage(ctx context.Context, rows []usage.Row, floored bool) error {
	if len(rows) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("INSERT INTO usage (rule, period, key, spent, seen) VALUES ")
	args := make([]any, 0, 5*len(rows))
	for i := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(?, ?, ?, ?, ?)")
		r := &rows[i]
		args = append(args, r.Rule, r.Period, r.Key, r.Spent, r.Seen)
	}
	spent := "excluded.spent"
	if floored {
		spent = "CASE WHEN usage.spent > excluded.spent THEN usage.spent ELSE excluded.spent END"
	}
	b.WriteString(" ON CONFLICT (rule, period, key) DO UPDATE SET spent = " + spent +
		", seen = excluded.seen WHERE usage.seen < excluded.seen")
	return d.writeIn(ctx, func(tx *gorm.DB) error { return tx.Exec(b.String(), args...).Error })
}

// Usage implements usage.Database.
func (d *DB) Usage(ctx context.Context, q usage.Query) (rows []usage.Row, err error) {
	err = d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		tx = tx.Table("usage").Where("rule = ? AND period = ? AND key > ?", q.Rule, q.Period, q.After)
		if q.Key != "" {
			tx = tx.Where("key = ?", q.Key)
		}
		return tx.Order("key").Limit(q.Most).Find(&rows).Error
	})
	return rows, err
}

// UsagePeriods implements usage.Database. It looks up each period in the index, however many rows it has.
func (d *DB) UsagePeriods(ctx context.Context, rule int64, most int) (periods []int64, err error) {
	err = d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		return tx.Raw(`WITH RECURSIVE p(period) AS (
				SELECT MAX(period) FROM usage WHERE rule = ?
				UNION ALL
				SELECT (SELECT MAX(period) FROM usage WHERE rule = ? AND period < p.period) FROM p WHERE p.period IS NOT NULL
			) SELECT period FROM p WHERE period IS NOT NULL LIMIT ?`, rule, rule, most).Scan(&periods).Error
	})
	return periods, err
}

// UsageTotals implements usage.Database.
func (d *DB) UsageTotals(ctx context.Context, rule int64, key string, periods []int64) (out []usage.Total, err error) {
	if len(periods) == 0 {
		return nil, nil
	}
	err = d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		tx = tx.Table("usage").Select("period, COUNT(*) AS keys, CAST(SUM(spent) AS BIGINT) AS spent").
			Where("rule = ? AND period IN ?", rule, periods)
		if key != "" {
			tx = tx.Where("key = ?", key)
		}
		return tx.Group("period").Find(&out).Error
	})
	return out, err
}

// UsageRules implements usage.Database.
func (d *DB) UsageRules(ctx context.Context) (ids []int64, err error) {
	err = d.readIn(ctx, statsTimeout, func(tx *gorm.DB) error {
		return tx.Raw(`WITH RECURSIVE r(rule) AS (
				SELECT MIN(rule) FROM usage
				UNION ALL
				SELECT (SELECT MIN(rule) FROM usage WHERE rule > r.rule) FROM r WHERE r.rule IS NOT NULL
			) SELECT rule FROM r WHERE rule IS NOT NULL`).Scan(&ids).Error
	})
	return ids, err
}

// CleanUsage implements usage.Database.
func (d *DB) CleanUsage(ctx context.Context, rule, before int64, limit int) (n int64, err error) {
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		old := tx.Table("usage").Select("period, key").Where("rule = ? AND period < ?", rule, before).
			Order("period, key").Limit(limit)
		res := tx.Exec("DELETE FROM usage WHERE rule = ? AND (period, key) IN (?)", rule, old)
		n = res.RowsAffected
		return res.Error
	})
	return n, err
}

// UsageLost implements usage.Database.
func (d *DB) UsageLost(ctx context.Context) (at int64, err error) {
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Raw("SELECT lost_at FROM usage_state WHERE id = 1").Scan(&at).Error
	})
	return at, err
}

// SetUsageLost implements usage.Database.
func (d *DB) SetUsageLost(ctx context.Context, at int64) error {
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE usage_state SET lost_at = ? WHERE id = 1 AND EXISTS (SELECT 1 FROM usage)", at).Error
	})
}

// ClearUsageLost implements usage.Database.
func (d *DB) ClearUsageLost(ctx context.Context, at int64) error {
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE usage_state SET lost_at = 0 WHERE id = 1 AND lost_at = ?", at).Error
	})
}
