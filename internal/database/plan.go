package database

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/rules"
)

// planRate is the number of rules for which a plan gets one more second: a tenth of what an idle
// machine writes per second.
const planRate = 500

// ApplyPlan applies a plan in one transaction, all of it or nothing. A rule that was changed or deleted since the plan
// was computed gives ErrStale, a name that was taken since then ErrNameTaken, a pool in use ErrPoolUsed, an invalid
// rule a *ValidationError. An empty plan does nothing and leaves no audit entry.
func (d *DB) ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error {
	if actor.Kind == "" || actor.Name == "" {
		return ErrNoActor
	}
	if p.Empty() {
		return nil
	}
	if err := errors.Join(pools.checkPlan(&p.Pools), profiles.checkPlan(&p.Profiles)); err != nil {
		return err
	}
	size := len(p.Create) + len(p.Update) + len(p.Delete)
	timeout := d.callTimeout + time.Duration(size/planRate)*time.Second
	return d.change(ctx, actor, areaRules, timeout, func(c *change) error {
		if err := pools.writePlanned(c, &p.Pools); err != nil { // which rules of the plan may use
			return err
		}
		// Deletions first: the number of profiles is bounded.
		if err := profiles.removePlanned(c, &p.Profiles); err != nil {
			return err
		}
		if err := profiles.writePlanned(c, &p.Profiles); err != nil {
			return err
		}
		for some := range slices.Chunk(p.Delete, insertBatch) {
			if err := c.removePlanned(some); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(p.Update, insertBatch) {
			if err := c.updatePlanned(some); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(p.Create, insertBatch) {
			if err := c.createPlanned(some); err != nil {
				return err
			}
		}
		return pools.removePlanned(c, &p.Pools) // which no rule of the plan uses any more
	})
}

// createPlanned checks and creates rules, a few at a time, because checking copies them.
func (c *change) createPlanned(some []rules.Rule) error {
	create := make([]rules.Rule, len(some))
	for i := range some {
		var err error
		if create[i], err = checked(some[i]); err != nil {
			return err
		}
	}
	_, err := c.insertRules(actionImport, create)
	return err
}

// updatePlanned updates rules that have not changed since the plan.
func (c *change) updatePlanned(some []rules.Edit) error {
	planned := edits{is: make([]rules.Rule, len(some))}
	seen := make([]rules.Rule, len(some))
	var err error
	for i := range some {
		seen[i] = some[i].Old
		if planned.is[i], err = checked(some[i].New); err != nil {
			return err
		}
	}
	if planned.was, err = c.seenRules(seen); err != nil {
		return err
	}
	for i := range planned.is {
		if err := c.admit(&planned.was[i], &planned.is[i]); err != nil {
			return err
		}
	}
	return c.replaceRules(actionImport, &planned)
}

// removePlanned deletes rules that have not changed since the plan.
func (c *change) removePlanned(some []rules.Rule) error {
	was, err := c.seenRules(some)
	if err != nil {
		return err
	}
	return c.removeRules(was)
}
