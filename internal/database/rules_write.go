package database

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"sluice/rules"
)

// CreateRule stores a new rule and returns it with its id, version 1 and times, which are ignored
// in the argument. Errors: *ValidationError, ErrNameTaken, ErrUnavailable.
func (d *DB) CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error) {
	r, err := checked(r)
	if err != nil {
		return rules.Rule{}, err
	}
	err = d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		created, err := c.insertRules(actionCreate, []rules.Rule{r})
		if err == nil {
			r = created[0]
		}
		return err
	})
	if err != nil {
		return rules.Rule{}, err
	}
	return r, nil
}

// errUnchanged ends a change that would write the stored content.
var errUnchanged = errors.New("nothing changes")

// UpdateRule replaces the content of the rule r.ID and returns it with its next version. If
// nothing differs, nothing is written and the stored rule is returned. If ifVersion is not 0 and
// not the stored version, the error is ErrStale. Other errors: *ValidationError, ErrNotFound,
// ErrNameTaken, ErrUnavailable.
func (d *DB) UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error) {
	r, err := checked(r)
	if err != nil {
		return rules.Rule{}, err
	}
	err = d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		was, err := c.lockedRule(r.ID, ifVersion)
		if err != nil {
			return err
		}
		r.KeepFailMode(&was)
		if len(rules.Diff(&was, &r)) == 0 {
			r = was
			return errUnchanged
		}
		r, err = c.replaceRule(actionUpdate, &was, r)
		return err
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return rules.Rule{}, err
	}
	return r, nil
}

// DeleteRule deletes a rule; its history stays. ifVersion is as in UpdateRule. Errors:
// ErrNotFound, ErrStale, ErrUnavailable.
func (d *DB) DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error {
	return d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		was, err := c.lockedRule(id, ifVersion)
		if err != nil {
			return err
		}
		return c.removeRules([]rules.Rule{was})
	})
}

// RollbackRule restores the content that a rule had in version toVersion, as a new version.
// ifVersion is as in UpdateRule. Errors: ErrNotFound (no such rule or version), ErrStale,
// ErrNameTaken (another rule has the old name now), *ValidationError (the old content is no longer
// allowed), ErrUnavailable.
func (d *DB) RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error) {
	var rolled rules.Rule
	err := d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		was, err := c.lockedRule(id, ifVersion)
		if err != nil {
			return err
		}
		var row revisionRow
		if err := c.tx.Where("rule_id = ? AND version = ?", id, toVersion).Take(&row).Error; err != nil {
			return err
		}
		target, err := checked(row.revision().Rule)
		if err != nil {
			return err
		}
		rolled, err = c.replaceRule(actionRollback, &was, target)
		return err
	})
	if err != nil {
		return rules.Rule{}, err
	}
	return rolled, nil
}

// PromoteRule puts the trial of a rule in force, as a new version; see rules.Rule.Promote.
// ifVersion is as in UpdateRule. Errors: ErrNotFound, ErrStale, *ValidationError (nothing to
// promote, or the result is invalid), ErrUnavailable.
func (d *DB) PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error) {
	var promoted rules.Rule
	err := d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		was, err := c.lockedRule(id, ifVersion)
		if err != nil {
			return err
		}
		next := was.Clone()
		if err := next.Promote(); err != nil {
			return err
		}
		if next, err = checked(next); err != nil {
			return err
		}
		promoted, err = c.replaceRule(actionPromote, &was, next)
		return err
	})
	if err != nil {
		return rules.Rule{}, err
	}
	return promoted, nil
}

// checked validates once more before a write. Callers have validated already, with the field names
// of their input.
func checked(r rules.Rule) (rules.Rule, error) {
	r = r.Clone()
	r.Normalize()
	if err := rules.Validate(&r); err != nil {
		return rules.Rule{}, err
	}
	return r, nil
}

// lockedRule reads a rule within the change. No other transaction can write the rule until the change ends, because
// every writer locks the row of versions.
func (c *change) lockedRule(id, ifVersion int64) (rules.Rule, error) {
	var row ruleRow
	err := c.tx.Where("id = ?", id).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return rules.Rule{}, rules.ErrNotFound
	}
	if err != nil {
		return rules.Rule{}, err
	}
	if ifVersion != 0 && ifVersion != row.Version {
		return rules.Rule{}, rules.ErrStale
	}
	return row.rule(), nil
}

// insertRules stores new rules and records them.
func (c *change) insertRules(action string, rs []rules.Rule) ([]rules.Rule, error) {
	rows := make([]ruleRow, len(rs))
	for i := range rs {
		if err := c.admit(nil, &rs[i]); err != nil {
			return nil, err
		}
		var err error
		if rows[i], err = rowOf(&rs[i]); err != nil {
			return nil, err
		}
		rows[i].ID, rows[i].Version, rows[i].Seq = 0, 1, c.version
		rows[i].CreatedAt, rows[i].UpdatedAt = c.at, c.at
		c.writes(&rows[i], &rs[i])
		c.named.writes(nil, &rs[i])
	}
	if err := insertRows(c.tx, rows); err != nil {
		return nil, err
	}
	created := rulesOf(rows)
	for i := range created {
		if err := c.recordRule(action, 1, nil, &created[i]); err != nil {
			return nil, err
		}
	}
	return created, nil
}

// admit refuses what the schema cannot refuse: a pool that does not exist, and patterns above
// their bounds. was is nil for a new rule.
func (c *change) admit(was, is *rules.Rule) error {
	if err := c.checkPool(is); err != nil {
		return err
	}
	return c.countPatterns(was, is)
}

// replaceRule is replaceRules for one rule.
func (c *change) replaceRule(action string, was *rules.Rule, r rules.Rule) (rules.Rule, error) {
	if err := c.admit(was, &r); err != nil {
		return rules.Rule{}, err
	}
	one := edits{was: []rules.Rule{*was}, is: []rules.Rule{r}}
	if err := c.replaceRules(action, &one); err != nil {
		return rules.Rule{}, err
	}
	return one.is[0], nil
}
