package database

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// Actions of audit entries about overrides; their subject is the rule.
const (
	actionOverrideCreate = "override_create"
	actionOverrideUpdate = "override_update"
	actionOverrideDelete = "override_delete"
	actionOverrideImport = "override_import"
)

// overrideDetails holds the details of an audit entry about one override; a missing side is nil.
type overrideDetails struct {
	Was    *rules.Override `json:"was"`
	Is     *rules.Override `json:"is"`
	Undoes int64           `json:"undoes,omitempty"`
}

// CreateOverride stores a new override of the rule o.RuleID and returns it with its id, version 1
// and times. opt holds the settings by which addresses are counted. Errors: *ValidationError,
// ErrNotFound (no such rule), ErrOverrideExists, ErrUnavailable.
func (d *DB) CreateOverride(ctx context.Context, actor rules.Actor, o rules.Override,
	opt match.Options) (rules.Override, error) {
	err := d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		r, err := c.resolveOverride(&o, opt)
		if err != nil {
			return err
		}
		if err := c.dropEnded(&o); err != nil {
			return err
		}
		o.BeginCalendar(nil, &r, c.at.Time)
		row := overrideRowOf(&o)
		row.ID, row.Version, row.Seq, row.CreatedAt, row.UpdatedAt = 0, 1, c.version, c.at, c.at
		if err := c.tx.Create(&row).Error; err != nil {
			return err
		}
		o = row.override()
		return c.record(actionOverrideCreate, subjectRule, r.ID, r.Name, overrideDetails{Is: &o,
			Undoes: c.actor.Undoes})
	})
	if err != nil {
		return rules.Override{}, err
	}
	return o, nil
}

// UpdateOverride replaces the content of the override o.ID of the rule o.RuleID and returns it
// with its next version. The key cannot change; an empty key keeps it. If nothing differs, nothing
// is written and the stored override is returned. If ifVersion is not 0 and not the stored
// version, the error is ErrStale. Other errors: *ValidationError, ErrNotFound, ErrUnavailable.
func (d *DB) UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64,
	opt match.Options) (rules.Override, error) {
	err := d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		was, err := c.lockedOverride(o.RuleID, o.ID, ifVersion)
		if err != nil {
			return err
		}
		given := o.Key
		if given == "" {
			o.Key = was.Key
		}
		r, err := c.resolveOverride(&o, opt)
		if err := keepKey(&o, &was, given, err); err != nil {
			return err
		}
		if was.Same(&o) && o.Match == was.Match && o.Prefix == was.Prefix {
			o = was
			return errUnchanged
		}
		o.BeginCalendar(&was, &r, c.at.Time)
		row := overrideRowOf(&o)
		row.Version, row.Seq, row.CreatedAt, row.UpdatedAt = was.Version+1, c.version, newRowTime(was.CreatedAt), c.at
		res := c.tx.Model(&overrideRow{}).Where("id = ? AND version = ?", was.ID, was.Version).
			Select("*").Omit("id", "created_at").UpdateColumns(&row)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected != 1 {
			return rules.ErrStale
		}
		o = row.override()
		return c.record(actionOverrideUpdate, subjectRule, r.ID, r.Name, overrideDetails{Was: &was, Is: &o,
			Undoes: c.actor.Undoes})
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return rules.Override{}, err
	}
	return o, nil
}

// keepKey restores the stored key if the given one names the same bucket, and otherwise refuses
// the change. A key that the rule's scope no longer allows may stay.
func keepKey(o, was *rules.Override, given string, err error) error {
	var invalid *field.ValidationError
	if err != nil && !errors.As(err, &invalid) {
		return err
	}
	var left []field.Problem
	if invalid != nil {
		for _, f := range invalid.Fields {
			if f.Field != "key" || given != "" && given != was.Key {
				left = append(left, f)
			}
		}
	}
	if len(left) == 0 && given != "" && given != was.Key && (o.Match != was.Match || o.Prefix != was.Prefix) {
		left = append(left, field.Problem{Field: "key", Message: "cannot be changed; create another override"})
	}
	if len(left) > 0 {
		return &field.ValidationError{Fields: left}
	}
	o.Key, o.Match, o.Prefix = was.Key, was.Match, was.Prefix
	return nil
}

// DeleteOverride deletes an override. ifVersion is as in UpdateOverride. Errors: ErrNotFound,
// ErrStale, ErrUnavailable.
func (d *DB) DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error {
	return d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		was, err := c.lockedOverride(ruleID, id, ifVersion)
		if err != nil {
			return err
		}
		if err := c.tx.Where("id = ?", id).Delete(&overrideRow{}).Error; err != nil {
			return err
		}
		stone := tombstoneRow{Seq: c.version, RuleID: ruleID, MatchKey: was.Match, IsPrefix: was.Prefix, At: c.at}
		if err := c.tx.Create(&stone).Error; err != nil {
			return err
		}
		r, err := c.lockedRule(ruleID, 0)
		if err != nil {
			return err
		}
		return c.record(actionOverrideDelete, subjectRule, r.ID, r.Name, overrideDetails{Was: &was,
			Undoes: c.actor.Undoes})
	})
}

// resolveOverride validates an override against its rule. The rule cannot be deleted before the
// change ends, because deleting a rule takes the row of this area as well.
func (c *change) resolveOverride(o *rules.Override, opt match.Options) (rules.Rule, error) {
	r, err := c.lockedRule(o.RuleID, 0)
	if err != nil {
		return r, err
	}
	return r, match.ResolveOverride(o, &r, opt, c.at.Time)
}

func (c *change) lockedOverride(ruleID, id, ifVersion int64) (rules.Override, error) {
	var row overrideRow
	err := c.tx.Where("rule_id = ? AND id = ?", ruleID, id).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return rules.Override{}, rules.ErrNotFound
	}
	if err != nil {
		return rules.Override{}, err
	}
	if ifVersion != 0 && ifVersion != row.Version {
		return rules.Override{}, rules.ErrStale
	}
	return row.override(), nil
}

// dropEnded deletes an expired override with the key of a new one.
func (c *change) dropEnded(o *rules.Override) error {
	return c.tx.Where("rule_id = ? AND match_key = ? AND is_prefix = ? AND expires_at <= ?", o.RuleID, o.Match, o.Prefix,
		c.at).
		Delete(&overrideRow{}).Error
}
