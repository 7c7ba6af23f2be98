package database

import (
	"context"

	"sluice/rules"
)

// actionReset is the action of an audit entry about a reset bucket; its subject is the rule.
const actionReset = "reset"

// actionDrop is the action of an audit entry about deferred requests that were dropped; its subject is the rule.
const actionDrop = "drop"

// NoteDrop records in the audit log that an actor drops the deferred requests of a rule, which may be deleted, and
// calls drop, which does it. requests is how many were waiting. drop is called only after the entry is written, and the
// entry stays only if drop succeeds. The context of drop ends early enough for the entry to be committed. The error is
// drop's own or ErrUnavailable.
func (d *DB) NoteDrop(ctx context.Context, actor rules.Actor, ruleID int64, name string, requests int64,
	drop func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, min(d.callTimeout, idleTransaction)/2)
	defer cancel()
	var failed error
	err := d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		details := map[string]int64{"requests": requests}
		if err := c.record(actionDrop, subjectRule, ruleID, name, details); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		c.entries = nil
		failed = drop(limited)
		return failed
	})
	if failed != nil {
		return failed
	}
	return err
}

// resetDetails holds the details of such an entry.
type resetDetails struct {
	Key string `json:"key"`
	// Only is ban if the rest of the bucket stays.
	Only string `json:"only,omitempty"`
}

// NoteReset records in the audit log that an actor resets a bucket of a rule, by its displayed
// key, or only its ban (only is ban, else ""), and calls reset, which does it. reset is called only
// after the entry is written, and the entry stays only if reset succeeds. The error is reset's own,
// ErrNotFound (no such rule) or ErrUnavailable.
func (d *DB) NoteReset(ctx context.Context, actor rules.Actor, ruleID int64, key, only string,
	reset func(context.Context) error) error {
	var failed error
	err := d.change(ctx, actor, areaOverrides, d.callTimeout, func(c *change) error {
		r, err := c.lockedRule(ruleID, 0)
		if err != nil {
			return err
		}
		if err := c.record(actionReset, subjectRule, r.ID, r.Name, resetDetails{Key: key, Only: only}); err != nil {
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
