package database

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/rules"
	"sluice/rules/field"
)

// errNothing ends a change that would write nothing, so that no version is raised.
var errNothing = errors.New("nothing to write")

// EditRules edits many rules in one transaction, each with its own revision, and all with one audit
// entry. A rule that changed since it was seen, or that is invalid after the edit, is skipped and
// reported; the others are still edited. edit must depend on nothing but the rule. UndoBulk reverts
// the edit. Errors: ErrUnavailable; then nothing was edited.
func (d *DB) EditRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion,
	edit func(*rules.Rule)) (rules.BulkResult, error) {
	var out rules.BulkResult
	timeout := d.callTimeout + time.Duration(len(seen)/planRate)*time.Second
	err := d.change(ctx, actor, areaRules, timeout, func(c *change) error {
		out = rules.BulkResult{Bulk: c.version}
		c.bulk = &bulkEntry{action: actionUpdate}
		for some := range slices.Chunk(seen, insertBatch) {
			if err := c.editSome(some, edit, &out); err != nil {
				return err
			}
		}
		if out.Changed == 0 {
			return errNothing
		}
		return nil
	})
	return bulkResult(out, err)
}

// bulkResult is the result of an edit of many rules that ended with an error, which may be errNothing.
func bulkResult(out rules.BulkResult, err error) (rules.BulkResult, error) {
	switch {
	case errors.Is(err, errNothing):
		out.Bulk = 0
	case err != nil:
		return rules.BulkResult{}, err
	}
	return out, nil
}

// DeleteRules deletes many rules in one transaction, with their overrides, each with its own revision and audit entry.
// A rule that changed since it was seen, or that a remaining rule names in replaces, is skipped and reported. Errors:
// ErrUnavailable; then nothing was deleted.
func (d *DB) DeleteRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion) (rules.BulkResult, error) {
	var out rules.BulkResult
	timeout := d.callTimeout + time.Duration(len(seen)/planRate)*time.Second
	err := d.change(ctx, actor, areaRules, timeout, func(c *change) error {
		out = rules.BulkResult{}
		named, err := c.namedBeyond(seen)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(seen, insertBatch) {
			if err := c.deleteSome(some, named, &out); err != nil {
				return err
			}
		}
		if out.Changed == 0 {
			return errNothing
		}
		return nil
	})
	return bulkResult(out, err)
}

// deleteSome deletes as many rules as one query may name. named contains the rules that others name in replaces.
func (c *change) deleteSome(seen []rules.SeenVersion, named map[string][]string, out *rules.BulkResult) error {
	byID, err := c.rowsOf(seen)
	if err != nil {
		return err
	}
	var gone []rules.Rule
	for _, s := range seen {
		row := byID[s.ID]
		switch {
		case row == nil:
			out.Skip(s.ID, "", rules.ErrNotFound)
		case row.Version != s.Version:
			out.Skip(s.ID, row.Name, rules.ErrStale)
		case named[row.Name] != nil:
			out.Skip(s.ID, row.Name, &rules.NamedError{Name: row.Name, By: named[row.Name]})
		default:
			gone = append(gone, row.rule())
			delete(byID, s.ID) // once, even if it is named twice
		}
	}
	out.Changed += len(gone)
	if gone == nil {
		return nil
	}
	return c.removeRules(gone)
}

// rowsOf reads rules by id.
func (c *change) rowsOf(seen []rules.SeenVersion) (map[int64]*ruleRow, error) {
	ids := make([]int64, len(seen))
	for i := range seen {
		ids[i] = seen[i].ID
	}
	var rows []ruleRow
	if err := c.tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	byID := make(map[int64]*ruleRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	return byID, nil
}

// editSome edits as many rules as one query may name.
func (c *change) editSome(seen []rules.SeenVersion, edit func(*rules.Rule), out *rules.BulkResult) error {
	byID, err := c.rowsOf(seen)
	if err != nil {
		return err
	}
	var edits edits
	for _, s := range seen {
		row := byID[s.ID]
		if row == nil {
			out.Skip(s.ID, "", rules.ErrNotFound)
			continue
		}
		was := row.rule()
		err := rules.ErrStale
		if s.Version == 0 || was.Version == s.Version {
			err = c.editOne(&was, edit, &edits, out)
		}
		var invalid *field.ValidationError
		switch {
		case errors.Is(err, rules.ErrStale), errors.As(err, &invalid):
			out.Skip(s.ID, was.Name, err)
		case err != nil:
			return err
		}
	}
	free, err := c.withoutTaken(&edits, out)
	if err != nil {
		return err
	}
	out.Changed += len(free.is)
	return c.replaceRules(actionUpdate, &free)
}

func (c *change) editOne(was *rules.Rule, edit func(*rules.Rule), edits *edits, out *rules.BulkResult) error {
	next := was.Clone()
	edit(&next)
	next, err := checked(next)
	if err != nil {
		return err
	}
	if len(rules.Diff(was, &next)) == 0 {
		out.Same++
		return nil
	}
	if err := c.admit(was, &next); err != nil {
		return err
	}
	edits.add(was, &next)
	return nil
}
