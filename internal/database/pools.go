package database

import (
	"context"
	"fmt"

	"sluice/rules"
)

// poolRow is a row of pools.
type poolRow struct {
	Head
	LimitCount    int64 `gorm:"column:limit_count"`
	WindowMS      int64 `gorm:"column:window_ms"`
	NormalPercent int64 `gorm:"column:normal_percent"`
	LowPercent    int64 `gorm:"column:low_percent"`
}

// TableName implements gorm's Tabler.
func (poolRow) TableName() string { return "pools" }

var pools = objects[poolRow, rules.Pool]{
	subject: subjectPool,
	head:    func(row *poolRow) *Head { return &row.Head },
	name:    func(p *rules.Pool) string { return p.Name },
	version: func(p *rules.Pool) int64 { return p.Version },
	object: func(row *poolRow) rules.Pool {
		return rules.Pool{
			Name: row.Name, Description: row.Description, Limit: row.LimitCount, WindowMS: row.WindowMS,
			NormalPercent: row.NormalPercent, LowPercent: row.LowPercent,
			Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
		}
	},
	put: func(row *poolRow, p *rules.Pool) error {
		row.Name, row.Description, row.LimitCount, row.WindowMS = p.Name, p.Description, p.Limit, p.WindowMS
		row.NormalPercent, row.LowPercent = p.NormalPercent, p.LowPercent
		return nil
	},
	valid: rules.ValidatePool,
	diff:  rules.DiffPool,
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

// ListPools returns every pool ordered by name; there are never many.
func (d *DB) ListPools(ctx context.Context) ([]rules.Pool, error) { return pools.list(ctx, d) }

// GetPool returns the pool with a name, or ErrNotFound.
func (d *DB) GetPool(ctx context.Context, name string) (rules.Pool, error) {
	return pools.get(ctx, d, name)
}

// CreatePool stores a new pool and returns it with version 1 and times. Errors:
// *ValidationError, ErrNameTaken, ErrUnavailable.
func (d *DB) CreatePool(ctx context.Context, actor rules.Actor, p rules.Pool) (rules.Pool, error) {
	return pools.create(ctx, d, actor, p)
}

// UpdatePool replaces the content of the pool p.Name. If nothing differs, nothing is written and
// the stored pool is returned. If ifVersion is not 0 and not the stored version, the error is
// ErrStale. Other errors: *ValidationError, ErrNotFound, ErrUnavailable.
func (d *DB) UpdatePool(ctx context.Context, actor rules.Actor, p rules.Pool, ifVersion int64) (rules.Pool, error) {
	return pools.update(ctx, d, actor, p, ifVersion)
}

// DeletePool deletes a pool that no rule uses. Errors: ErrNotFound, ErrStale, ErrPoolUsed,
// ErrUnavailable.
func (d *DB) DeletePool(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error {
	return pools.delete(ctx, d, actor, name, ifVersion)
}

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
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: "pool", Message: "does not exist"}}}
	}
	return nil
}
