package database

import (
	"context"

	"sluice/rules"
)

// actionReset is the action of an audit entry about a bucket that was reset; its
// subject is the rule.
const actionReset = "reset"

// resetDetails are the details of such an entry.
type resetDetails struct {
	Key string `json:"key"`
}

// NoteReset records in the audit log that an actor resets a bucket of a rule, by
// the name it has for people, and calls reset, which does it. The entry stays
// only if reset succeeds, and reset is called only once the entry is written. The
// error is reset's own, ErrNotFound (no such rule) or ErrUnavailable.
func (d *DB) NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key string, reset func(context.Context) error) error {
	var failed error
	err := d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		r, err := c.lockedRule(ruleID, 0)
		if err != nil {
			return err
		}
		if err := c.record(actionReset, subjectRule, r.ID, r.Name, resetDetails{Key: key}); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		c.entries = nil
		failed = reset(ctx)
		return failed
	})
	if failed != nil {
		return failed
	}
	return err
}
