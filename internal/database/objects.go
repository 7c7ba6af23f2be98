package database

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"sluice/rules"
)

// Head holds the columns that all objects with names have. Only the audit log uses the id.
type Head struct {
	ID          int64   `gorm:"column:id;primaryKey;autoIncrement"`
	Name        string  `gorm:"column:name"`
	Description string  `gorm:"column:description"`
	Version     int64   `gorm:"column:version"`
	CreatedAt   rowTime `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt   rowTime `gorm:"column:updated_at;autoUpdateTime:false"`
}

// objects reads and writes the objects of type T, which people know by name, in rows of type R.
// Their changes count as changes of the rules.
type objects[R, T any] struct {
	// subject is their kind in the audit log.
	subject string
	head    func(*R) *Head
	name    func(*T) string
	version func(*T) int64
	// object converts a row, put copies the fields that people write into one.
	object func(*R) T
	put    func(*R, *T) error
	valid  func(*T) error
	diff   func(was, is *T) []rules.Change
	// creating and deleting refuse a change, or take note of it.
	creating func(*change) error
	deleting func(*change, *Head) error
	// whole refuses what all objects together may not be after a change; nil refuses nothing. Changes are written one
	// after the other, so none can come between.
	whole func([]T) error
}

// read returns all objects ordered by name; there are never many.
func (o *objects[R, T]) read(tx *gorm.DB) ([]T, error) {
	var rows []R
	if err := tx.Order("name").Find(&rows).Error; err != nil {
		return nil, err
	}
	list := make([]T, len(rows))
	for i := range rows {
		list[i] = o.object(&rows[i])
	}
	return list, nil
}

func (o *objects[R, T]) list(ctx context.Context, d *DB) (list []T, err error) {
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		list, err = o.read(tx)
		return err
	})
	return list, err
}

func (o *objects[R, T]) get(ctx context.Context, d *DB, name string) (t T, err error) {
	if !storable(name) {
		return t, rules.ErrNotFound
	}
	var row R
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("name = ?", name).Take(&row).Error
	})
	if err != nil {
		return t, err
	}
	return o.object(&row), nil
}

func (o *objects[R, T]) create(ctx context.Context, d *DB, actor rules.Actor, t T) (T, error) {
	return o.write(ctx, d, actor, t, func(c *change) (T, error) { return o.insert(c, actionCreate, &t) })
}

func (o *objects[R, T]) update(ctx context.Context, d *DB, actor rules.Actor, t T, ifVersion int64) (T, error) {
	return o.write(ctx, d, actor, t, func(c *change) (T, error) {
		row, err := o.locked(c, o.name(&t), ifVersion)
		if err != nil {
			return t, err
		}
		if was := o.object(&row); len(o.diff(&was, &t)) == 0 {
			return was, errUnchanged
		}
		return o.replace(c, actionUpdate, &t, ifVersion)
	})
}

func (o *objects[R, T]) write(ctx context.Context, d *DB, actor rules.Actor, t T,
	write func(*change) (T, error)) (written T, err error) {
	if err := o.valid(&t); err != nil {
		return written, err
	}
	var none T
	err = d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		var err error
		if written, err = write(c); err != nil {
			return err
		}
		return o.checkWhole(c)
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return none, err
	}
	return written, nil
}

// checkWhole checks all objects after a change.
func (o *objects[R, T]) checkWhole(c *change) error {
	if o.whole == nil {
		return nil
	}
	list, err := o.read(c.tx)
	if err != nil {
		return err
	}
	return o.whole(list)
}

func (o *objects[R, T]) delete(ctx context.Context, d *DB, actor rules.Actor, name string, ifVersion int64) error {
	if !storable(name) {
		return rules.ErrNotFound
	}
	return d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		return o.remove(c, name, ifVersion)
	})
}

// locked reads an object within the change; see lockedRule.
func (o *objects[R, T]) locked(c *change, name string, ifVersion int64) (row R, err error) {
	if err := c.tx.Where("name = ?", name).Take(&row).Error; err != nil {
		if isNotFound(err) {
			return row, rules.ErrNotFound
		}
		return row, err
	}
	if ifVersion != 0 && ifVersion != o.head(&row).Version {
		return row, rules.ErrStale
	}
	return row, nil
}

func (o *objects[R, T]) insert(c *change, action string, t *T) (is T, err error) {
	if err := o.creating(c); err != nil {
		return is, err
	}
	var row R
	if err := o.put(&row, t); err != nil {
		return is, err
	}
	head := o.head(&row)
	head.Version, head.CreatedAt, head.UpdatedAt = 1, c.at, c.at
	if err := c.tx.Create(&row).Error; err != nil {
		return is, err
	}
	is = o.object(&row)
	return is, o.record(c, action, head, nil, &is)
}

func (o *objects[R, T]) replace(c *change, action string, t *T, ifVersion int64) (is T, err error) {
	row, err := o.locked(c, o.name(t), ifVersion)
	if err != nil {
		return is, err
	}
	was := o.object(&row)
	if err := o.put(&row, t); err != nil {
		return is, err
	}
	head := o.head(&row)
	seen := head.Version
	head.Version, head.UpdatedAt = seen+1, c.at
	res := c.tx.Model(new(R)).Where("id = ? AND version = ?", head.ID, seen).
		Select("*").Omit("id", "created_at").UpdateColumns(&row)
	if res.Error != nil {
		return is, res.Error
	}
	if res.RowsAffected != 1 {
		return is, rules.ErrStale
	}
	is = o.object(&row)
	return is, o.record(c, action, head, &was, &is)
}

func (o *objects[R, T]) remove(c *change, name string, ifVersion int64) error {
	row, err := o.locked(c, name, ifVersion)
	if err != nil {
		return err
	}
	head := o.head(&row)
	if err := o.deleting(c, head); err != nil {
		return err
	}
	if err := c.tx.Where("id = ?", head.ID).Delete(new(R)).Error; err != nil {
		return err
	}
	was := o.object(&row)
	head.Version++
	return o.record(c, actionDelete, head, &was, nil)
}

// record records an audit entry. was is nil for a creation, is is nil for a deletion.
func (o *objects[R, T]) record(c *change, action string, head *Head, was, is *T) error {
	return c.record(action, o.subject, head.ID, head.Name, ruleDetails{Version: head.Version, Changes: o.diff(was, is),
		Reason: c.actor.Reason})
}

// checkPlan validates what a plan creates and updates.
func (o *objects[R, T]) checkPlan(p *rules.SectionPlan[T]) error {
	for i := range p.Create {
		if err := o.valid(&p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Update {
		if err := o.valid(&p.Update[i].New); err != nil {
			return err
		}
	}
	return nil
}

// writePlanned creates and updates the objects of a plan.
func (o *objects[R, T]) writePlanned(c *change, p *rules.SectionPlan[T]) error {
	for i := range p.Create {
		if _, err := o.insert(c, actionImport, &p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Update {
		e := &p.Update[i]
		_, err := o.replace(c, actionImport, &e.New, o.version(&e.Old))
		if err != nil {
			return staleIfGone(err)
		}
	}
	if len(p.Create)+len(p.Update) == 0 {
		return nil
	}
	return o.checkWhole(c)
}

// removePlanned deletes the objects that a plan deletes.
func (o *objects[R, T]) removePlanned(c *change, p *rules.SectionPlan[T]) error {
	for i := range p.Delete {
		if err := o.remove(c, o.name(&p.Delete[i]), o.version(&p.Delete[i])); err != nil {
			return staleIfGone(err)
		}
	}
	return nil
}

// staleIfGone returns the error for an object that was deleted since the plan.
func staleIfGone(err error) error {
	if errors.Is(err, rules.ErrNotFound) {
		return rules.ErrStale
	}
	return err
}
