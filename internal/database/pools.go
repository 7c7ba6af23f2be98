package database

import (
	"fmt"

	"sluice/rules"
	"sluice/rules/field"
)

// poolRow is a row of pools.
type poolRow struct {
	Head
	LimitCount    int64 `gorm:"column:limit_count"`
	WindowMS      int64 `gorm:"column:window_ms"`
	NormalPercent int64 `gorm:"column:normal_percent"`
	LowPercent    int64 `gorm:"column:low_percent"`
	Shed          bool  `gorm:"column:shed"`
}

// TableName implements gorm's Tabler.
func (poolRow) TableName() string { return "pools" }

var pools = objects[poolRow, rules.Pool]{
	kind: rules.PoolKind, area: areaRules,
	head: func(row *poolRow) *Head { return &row.Head },
	object: func(row *poolRow) rules.Pool {
		return rules.Pool{
			Name: row.Name, Description: row.Description, Limit: row.LimitCount, WindowMS: row.WindowMS,
			NormalPercent: row.NormalPercent, LowPercent: row.LowPercent, Shed: row.Shed,
			Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
		}
	},
	put: func(row *poolRow, p *rules.Pool) error {
		row.Name, row.Description, row.LimitCount, row.WindowMS = p.Name, p.Description, p.Limit, p.WindowMS
		row.NormalPercent, row.LowPercent, row.Shed = p.NormalPercent, p.LowPercent, p.Shed
		return nil
	},
	creating: func(c *change) error {
		c.pools = nil
		return nil
	},
	deleting: func(c *change, pool *Head) error {
		c.pools = nil
		var users int64
		if err := c.tx.Model(&ruleRow{}).Where("policies ->> 'pool' = ?", pool.Name).Count(&users).Error; err != nil {
			return err
		}
		if users > 0 {
			return fmt.Errorf("%w: %d of them", rules.ErrPoolUsed, users)
		}
		return nil
	},
}

// Pools stores pools.
func (d *DB) Pools() rules.Store[rules.Pool] { return stored[poolRow, rules.Pool]{&pools, d} }

// checkPool refuses a rule whose pool does not exist. Only the change itself can create or delete
// pools before it ends.
func (c *change) checkPool(r *rules.Rule) error {
	if r.Pool == nil {
		return nil
	}
	if c.pools == nil {
		var names []string
		if err := c.tx.Model(&poolRow{}).Pluck("name", &names).Error; err != nil {
			return err
		}
		c.pools = make(map[string]bool, len(names))
		for _, name := range names {
			c.pools[name] = true
		}
	}
	if !c.pools[*r.Pool] {
		return &field.ValidationError{Fields: []field.Problem{{Field: "pool", Message: "does not exist"}}}
	}
	return nil
}
