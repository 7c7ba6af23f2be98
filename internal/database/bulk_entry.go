package database

import (
	"encoding/json"
	"fmt"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

const (
	// listedRules is the largest number of rules that the audit entry of a bulk edit lists.
	listedRules = 100
	// listedChanges is the largest number of different changes that it lists.
	listedChanges = 20
)

// bulkEntry gathers the audit entry of an edit of many rules. Its size is bounded, whatever the number of rules.
type bulkEntry struct {
	action  string
	details bulkDetails
	// known are the listed changes as JSON.
	known map[string]bool
}

// bulkDetails holds the details of that entry. Changes lists each kind of change once: rules that had the same value
// before and after have one change together.
type bulkDetails struct {
	audit.Bulk
	Changes []field.Change `json:"changes"`
	Reason  string         `json:"reason,omitempty"`
	Undoes  int64          `json:"undoes,omitempty"`
}

// noteBulk adds an edited rule to the audit entry, and writes full batches of revisions.
func (c *change) noteBulk(r *rules.Rule, version int64, changes []field.Change) error {
	d := &c.bulk.details
	d.Rules++
	if len(d.Listed) < listedRules {
		d.Listed = append(d.Listed, audit.BulkRule{ID: r.ID, Name: r.Name, Version: version})
	}
	for _, one := range changes {
		if len(d.Changes) == listedChanges {
			break
		}
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		if c.bulk.known[string(text)] {
			continue
		}
		if c.bulk.known == nil {
			c.bulk.known = map[string]bool{}
		}
		c.bulk.known[string(text)] = true
		d.Changes = append(d.Changes, one)
	}
	if len(c.revisions) < insertBatch {
		return nil
	}
	return c.flush()
}

// recordBulk records the audit entry of an edit of many rules, if the change is one.
func (c *change) recordBulk() error {
	if c.bulk == nil {
		return nil
	}
	d := &c.bulk.details
	d.Reason, d.Undoes = c.actor.Reason, c.actor.Undoes
	name := "1 rule"
	if d.Rules != 1 {
		name = fmt.Sprintf("%d rules", d.Rules)
	}
	return c.record(c.bulk.action, audit.SubjectBulk, c.version, name, d)
}
