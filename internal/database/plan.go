package database

import (
	"context"
	"errors"
	"time"

	"sluice/rules"
)

// planRate is how many rules of a plan get a second more: several times what a
// plan takes where nothing else keeps the machine busy.
const planRate = 250

// ApplyPlan carries out a plan in one transaction: all of it or nothing. A rule
// that has changed or gone since the plan was made is ErrStale, a name that was
// taken meanwhile ErrNameTaken, a pool that is still used ErrPoolUsed, a rule that is not allowed a *ValidationError.
// An empty plan does nothing and leaves no trace.
func (d *DB) ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error {
	if actor.Kind == "" || actor.Name == "" {
		return ErrNoActor
	}
	if p.Empty() {
		return nil
	}
	create := make([]rules.Rule, len(p.Create))
	var err error
	for i := range p.Create {
		if create[i], err = checked(p.Create[i]); err != nil {
			return err
		}
	}
	update := make([]rules.Rule, len(p.Update))
	for i := range p.Update {
		if update[i], err = checked(p.Update[i].New); err != nil {
			return err
		}
	}
	if err := checkedPools(&p.Pools); err != nil {
		return err
	}
	size := len(create) + len(update) + len(p.Delete)
	timeout := d.callTimeout + time.Duration(size/planRate)*time.Second
	return d.change(ctx, actor, areaRules, timeout, func(c *change) error {
		if err := c.writePlannedPools(&p.Pools); err != nil {
			return err
		}
		for i := range p.Delete {
			if err := c.removePlanned(&p.Delete[i]); err != nil {
				return err
			}
		}
		for i := range update {
			was, err := c.plannedRule(&p.Update[i].Old)
			if err != nil {
				return err
			}
			if _, err := c.replaceRule(actionImport, &was, update[i]); err != nil {
				return err
			}
		}
		if len(create) > 0 {
			if _, err := c.insertRules(actionImport, create); err != nil {
				return err
			}
		}
		return c.removePlannedPools(&p.Pools)
	})
}

func checkedPools(p *rules.PoolPlan) error {
	for i := range p.Create {
		if err := rules.ValidatePool(&p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Update {
		if err := rules.ValidatePool(&p.Update[i].New); err != nil {
			return err
		}
	}
	return nil
}

// writePlannedPools makes the pools that rules of the plan may name.
func (c *change) writePlannedPools(p *rules.PoolPlan) error {
	for i := range p.Create {
		if _, err := c.insertPool(actionImport, &p.Create[i]); err != nil {
			return err
		}
	}
	for i := range p.Update {
		e := &p.Update[i]
		_, err := c.replacePool(actionImport, &e.New, e.Old.Version)
		if errors.Is(err, rules.ErrNotFound) {
			return rules.ErrStale
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removePlannedPools comes last, when no rule of the plan names them any more.
func (c *change) removePlannedPools(p *rules.PoolPlan) error {
	for i := range p.Delete {
		err := c.removePool(actionDelete, p.Delete[i].Name, p.Delete[i].Version)
		if errors.Is(err, rules.ErrNotFound) {
			return rules.ErrStale
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plannedRule reads a rule that the plan saw. Gone is as stale as changed.
func (c *change) plannedRule(seen *rules.Rule) (rules.Rule, error) {
	was, err := c.lockedRule(seen.ID, seen.Version)
	if isNotFound(err) {
		return rules.Rule{}, rules.ErrStale
	}
	return was, err
}

func (c *change) removePlanned(seen *rules.Rule) error {
	was, err := c.plannedRule(seen)
	if err != nil {
		return err
	}
	return c.removeRule(&was)
}
