package database

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"sluice/rules"
)

// poolRow is a row of pools. Only the audit log uses the id.
type poolRow struct {
	ID            int64  `gorm:"column:id;primaryKey;autoIncrement"`
	Name          string `gorm:"column:name"`
	Description   string `gorm:"column:description"`
	LimitCount    int64  `gorm:"column:limit_count"`
	WindowMS      int64  `gorm:"column:window_ms"`
	NormalPercent int64  `gorm:"column:normal_percent"`
	LowPercent    int64  `gorm:"column:low_percent"`
	Version       int64  `gorm:"column:version"`
	CreatedAt     stamp  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt     stamp  `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (poolRow) TableName() string { return "pools" }

// put copies the editable fields.
func (row *poolRow) put(p *rules.Pool) {
	row.Name, row.Description, row.LimitCount, row.WindowMS = p.Name, p.Description, p.Limit, p.WindowMS
	row.NormalPercent, row.LowPercent = p.NormalPercent, p.LowPercent
}

func (row *poolRow) pool() rules.Pool {
	return rules.Pool{
		Name: row.Name, Description: row.Description, Limit: row.LimitCount, WindowMS: row.WindowMS,
		NormalPercent: row.NormalPercent, LowPercent: row.LowPercent,
		Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
	}
}

func poolsOf(rows []poolRow) []rules.Pool {
	ps := make([]rules.Pool, len(rows))
	for i := range rows {
		ps[i] = rows[i].pool()
	}
	return ps
}

// ListPools returns every pool ordered by name; there are never many.
func (d *DB) ListPools(ctx context.Context) ([]rules.Pool, error) {
	var rows []poolRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Order("name").Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	return poolsOf(rows), nil
}

// GetPool returns the pool with a name, or ErrNotFound.
func (d *DB) GetPool(ctx context.Context, name string) (rules.Pool, error) {
	if !storable(name) {
		return rules.Pool{}, rules.ErrNotFound
	}
	var row poolRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("name = ?", name).Take(&row).Error
	})
	if err != nil {
		return rules.Pool{}, err
	}
	return row.pool(), nil
}

// CreatePool stores a new pool and returns it with version 1 and times. Errors:
// *ValidationError, ErrNameTaken, ErrUnavailable.
func (d *DB) CreatePool(ctx context.Context, actor rules.Actor, p rules.Pool) (rules.Pool, error) {
	return d.writePool(ctx, actor, p, func(c *change) (rules.Pool, error) {
		return c.insertPool(actionCreate, &p)
	})
}

// UpdatePool replaces the content of the pool p.Name. If nothing differs, nothing is written and
// the stored pool is returned. If ifVersion is not 0 and not the stored version, the error is
// ErrStale. Other errors: *ValidationError, ErrNotFound, ErrUnavailable.
func (d *DB) UpdatePool(ctx context.Context, actor rules.Actor, p rules.Pool, ifVersion int64) (rules.Pool, error) {
	return d.writePool(ctx, actor, p, func(c *change) (rules.Pool, error) {
		row, err := c.lockedPool(p.Name, ifVersion)
		if err != nil {
			return rules.Pool{}, err
		}
		if was := row.pool(); len(rules.DiffPool(&was, &p)) == 0 {
			return was, errUnchanged
		}
		return c.replacePool(actionUpdate, &p, ifVersion)
	})
}

func (d *DB) writePool(ctx context.Context, actor rules.Actor, p rules.Pool,
	write func(*change) (rules.Pool, error)) (rules.Pool, error) {
	if err := rules.ValidatePool(&p); err != nil {
		return rules.Pool{}, err
	}
	var written rules.Pool
	err := d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		var err error
		written, err = write(c)
		return err
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return rules.Pool{}, err
	}
	return written, nil
}

// DeletePool deletes a pool that no rule uses. Errors: ErrNotFound, ErrStale, ErrPoolUsed,
// ErrUnavailable.
func (d *DB) DeletePool(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error {
	if !storable(name) {
		return rules.ErrNotFound
	}
	return d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		return c.removePool(actionDelete, name, ifVersion)
	})
}

// lockedPool reads a pool within the change; see lockedRule.
func (c *change) lockedPool(name string, ifVersion int64) (poolRow, error) {
	var row poolRow
	if err := c.tx.Where("name = ?", name).Take(&row).Error; err != nil {
		if isNotFound(err) {
			return row, rules.ErrNotFound
		}
		return row, err
	}
	if ifVersion != 0 && ifVersion != row.Version {
		return row, rules.ErrStale
	}
	return row, nil
}

func (c *change) insertPool(action string, p *rules.Pool) (rules.Pool, error) {
	c.pools = nil
	row := poolRow{Version: 1, CreatedAt: c.at, UpdatedAt: c.at}
	row.put(p)
	if err := c.tx.Create(&row).Error; err != nil {
		return rules.Pool{}, err
	}
	is := row.pool()
	return is, c.recordPool(action, row.ID, nil, &is)
}

func (c *change) replacePool(action string, p *rules.Pool, ifVersion int64) (rules.Pool, error) {
	row, err := c.lockedPool(p.Name, ifVersion)
	if err != nil {
		return rules.Pool{}, err
	}
	was := row.pool()
	row.put(p)
	row.Version, row.UpdatedAt = was.Version+1, c.at
	res := c.tx.Model(&poolRow{}).Where("id = ? AND version = ?", row.ID, was.Version).
		Select("*").Omit("id", "created_at").UpdateColumns(&row)
	if res.Error != nil {
		return rules.Pool{}, res.Error
	}
	if res.RowsAffected != 1 {
		return rules.Pool{}, rules.ErrStale
	}
	is := row.pool()
	return is, c.recordPool(action, row.ID, &was, &is)
}

func (c *change) removePool(action, name string, ifVersion int64) error {
	c.pools = nil
	row, err := c.lockedPool(name, ifVersion)
	if err != nil {
		return err
	}
	var users int64
	if err := c.tx.Model(&ruleRow{}).Where("policies ->> 'pool' = ?", name).Count(&users).Error; err != nil {
		return err
	}
	if users > 0 {
		return fmt.Errorf("%w: %d of them", rules.ErrPoolUsed, users)
	}
	if err := c.tx.Where("id = ?", row.ID).Delete(&poolRow{}).Error; err != nil {
		return err
	}
	was := row.pool()
	return c.recordPool(action, row.ID, &was, nil)
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

// recordPool records an audit entry. was is nil for a creation, is is nil for a deletion.
func (c *change) recordPool(action string, id int64, was, is *rules.Pool) error {
	subject := is
	version := int64(0)
	if subject == nil {
		subject, version = was, was.Version+1
	} else {
		version = is.Version
	}
	return c.record(action, subjectPool, id, subject.Name, ruleDetails{Version: version, Changes: rules.DiffPool(was, is),
		Reason: c.actor.Reason})
}
