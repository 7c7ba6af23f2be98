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
type objects[R, T any] struct {
	// kind describes them; its noun is the subject in the audit log.
	kind *rules.Kind[T]
	// area is the one in which their changes count.
	area string
	head func(*R) *Head
	// object converts a row, put copies the fields that people write into one.
	object func(*R) T
	put    func(*R, *T) error
	// creating and deleting refuse a change, or take note of it.
	creating func(*change) error
	deleting func(*change, *Head) error
}

// stored are the objects of a kind in a database. It implements rules.Store.
type stored[R, T any] struct {
	*objects[R, T]
	d *DB
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

// List implements rules.Store.
func (o stored[R, T]) List(ctx context.Context) (list []T, err error) {
	err = o.d.readIn(ctx, o.d.callTimeout, func(tx *gorm.DB) error {
		list, err = o.read(tx)
		return err
	})
	return list, err
}

// Get implements rules.Store.
func (o stored[R, T]) Get(ctx context.Context, name string) (t T, err error) {
	if !storable(name) {
		return t, rules.ErrNotFound
	}
	var row R
	err = o.d.readIn(ctx, o.d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("name = ?", name).Take(&row).Error
	})
	if err != nil {
		return t, err
	}
	return o.object(&row), nil
}

// Create implements rules.Store.
func (o stored[R, T]) Create(ctx context.Context, actor rules.Actor, t T) (T, error) {
	return o.write(ctx, actor, t, func(c *change) (T, error) { return o.insert(c, actionCreate, &t) })
}

// Update implements rules.Store.
func (o stored[R, T]) Update(ctx context.Context, actor rules.Actor, t T, ifVersion int64) (T, error) {
	return o.write(ctx, actor, t, func(c *change) (T, error) {
		row, err := o.locked(c, o.kind.Name(&t), ifVersion)
		if err != nil {
			return t, err
		}
		if was := o.object(&row); len(o.kind.Diff(&was, &t)) == 0 {
			return was, errUnchanged
		}
		return o.replace(c, actionUpdate, &t, ifVersion)
	})
}

func (o stored[R, T]) write(ctx context.Context, actor rules.Actor, t T,
	write func(*change) (T, error)) (written T, err error) {
	if err := o.kind.Validate(&t); err != nil {
		return written, err
	}
	var none T
	err = o.d.change(ctx, actor, o.area, o.d.callTimeout, func(c *change) error {
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

// checkWhole checks all objects after a change. Changes are written one after the other, so none can come between.
func (o *objects[R, T]) checkWhole(c *change) error {
	if o.kind.Whole == nil {
		return nil
	}
	list, err := o.read(c.tx)
	if err != nil {
		return err
	}
	return o.kind.Whole(list)
}

// Delete implements rules.Store.
func (o stored[R, T]) Delete(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error {
	if !storable(name) {
		return rules.ErrNotFound
	}
	return o.d.change(ctx, actor, o.area, o.d.callTimeout, func(c *change) error {
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
	row, err := o.add(c, t)
	if err != nil {
		return is, err
	}
	is = o.object(&row)
	return is, o.record(c, action, o.head(&row), nil, &is)
}

// add stores a new object without an audit entry.
func (o *objects[R, T]) add(c *change, t *T) (row R, err error) {
	if err := o.creating(c); err != nil {
		return row, err
	}
	if err := o.put(&row, t); err != nil {
		return row, err
	}
	head := o.head(&row)
	head.Version, head.CreatedAt, head.UpdatedAt = 1, c.at, c.at
	return row, c.tx.Create(&row).Error
}

func (o *objects[R, T]) replace(c *change, action string, t *T, ifVersion int64) (is T, err error) {
	row, err := o.locked(c, o.kind.Name(t), ifVersion)
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
	row, err := o.drop(c, name, ifVersion)
	if err != nil {
		return err
	}
	was := o.object(&row)
	return o.record(c, actionDelete, o.head(&row), &was, nil)
}

// drop deletes an object without an audit entry. The row has the version after the deletion.
func (o *objects[R, T]) drop(c *change, name string, ifVersion int64) (row R, err error) {
	if row, err = o.locked(c, name, ifVersion); err != nil {
		return row, err
	}
	head := o.head(&row)
	if err := o.deleting(c, head); err != nil {
		return row, err
	}
	head.Version++
	return row, c.tx.Where("id = ?", head.ID).Delete(new(R)).Error
}

// record records an audit entry. was is nil for a creation, is is nil for a deletion.
func (o *objects[R, T]) record(c *change, action string, head *Head, was, is *T) error {
	return c.record(action, o.kind.Noun, head.ID, head.Name, ruleDetails{Version: head.Version,
		Changes: o.kind.Diff(was, is), Reason: c.actor.Reason})
}

// checkPlan validates the objects that a plan creates and updates.
func (o *objects[R, T]) checkPlan(p *rules.SectionPlan[T]) error {
	for i := range p.Create {
		if err := o.kind.Validate(&p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Update {
		if err := o.kind.Validate(&p.Update[i].New); err != nil {
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
		_, err := o.replace(c, actionImport, &e.New, o.kind.Version(&e.Old))
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
		if err := o.remove(c, o.kind.Name(&p.Delete[i]), o.kind.Version(&p.Delete[i])); err != nil {
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
