package database

import (
	"context"
	"time"

	"sluice/rules"
)

// planRate is how many rules of a plan get a second more.
const planRate = 1000

// ApplyPlan carries out a plan in one transaction: all of it or nothing. A rule
// that has changed or gone since the plan was made is ErrStale, a name that was
// taken meanwhile ErrNameTaken, a rule that is not allowed a *ValidationError.
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
	size := len(create) + len(update) + len(p.Delete)
	timeout := d.callTimeout + time.Duration(size/planRate)*time.Second
	return d.change(ctx, actor, areaRules, timeout, func(c *change) error {
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
		if len(create) == 0 {
			return nil
		}
		_, err := c.insertRules(actionImport, create)
		return err
	})
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
