package database

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// removeOverrides deletes all overrides of rules that are about to be deleted, and blocks new ones until the change
// ends. It deletes a few thousand rows immediately and leaves the others to the next cleaning. Overrides without their
// rule are invisible.
func (c *change) removeOverrides(ruleIDs []int64) (err error) {
	if c.overrides == 0 {
		if c.overrides, err = bump(c.tx, areaOverrides); err != nil {
			return err
		}
	}
	var owners []int64
	err = c.tx.Model(&ruleRow{}).Where("id IN ?", ruleIDs).
		Where("EXISTS (SELECT 1 FROM rule_overrides WHERE rule_id = rules.id)").Order("id").Pluck("id", &owners).Error
	if err != nil || len(owners) == 0 {
		return err
	}
	err = c.tx.Exec("DELETE FROM rule_overrides WHERE id IN (SELECT id FROM rule_overrides WHERE rule_id IN ? LIMIT ?)",
		owners, cleanupBatch).Error
	if err != nil {
		return err
	}
	stones := make([]tombstoneRow, len(owners))
	for i, id := range owners {
		stones[i] = tombstoneRow{Seq: c.overrides, RuleID: id, At: c.at}
	}
	return insertRows(c.tx, stones)
}

const (
	// keepEnded is the time for which an expired override can still be listed.
	keepEnded = 24 * time.Hour
	// keepTombstones is the longest disconnection after which a node loads only changes.
	keepTombstones = 24 * time.Hour
	// cleanupBatch bounds what one call deletes.
	cleanupBatch = 5000
)

// CleanOverrides deletes overrides that expired at least a day ago, overrides of deleted rules,
// and tombstones older than a day, up to a few thousand of each; more reports that there may be
// others. It changes nothing that is in force, so it has no actor. Any number of nodes may call
// it.
func (d *DB) CleanOverrides(ctx context.Context) (more bool, err error) {
	if d.Replica() {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	err = d.write.WithContext(limited).Transaction(func(tx *gorm.DB) error {
		n, err := cleanOverridesIn(tx, d.now())
		more = n >= cleanupBatch
		return err
	})
	return more, d.classify(ctx, err)
}

// cleanOverridesIn returns the number of deleted rows.
func cleanOverridesIn(tx *gorm.DB, now time.Time) (int64, error) {
	res := tx.Exec("DELETE FROM rule_overrides WHERE id IN (SELECT id FROM rule_overrides WHERE expires_at <= ? ORDER "+
		"BY expires_at LIMIT ?)",
		newRowTime(now.Add(-keepEnded)), cleanupBatch)
	if res.Error != nil {
		return 0, res.Error
	}
	n := res.RowsAffected
	res = tx.Exec("DELETE FROM rule_overrides WHERE id IN (SELECT id FROM rule_overrides WHERE rule_id IN"+
		" (SELECT rule_id FROM override_tombstones WHERE match_key = '') LIMIT ?)", cleanupBatch)
	if n += res.RowsAffected; res.Error != nil || res.RowsAffected > 0 {
		return n, res.Error
	}
	return n, cleanTombstones(tx, now)
}

// cleanTombstones deletes tombstones that every node has seen, and records the last change among
// them.
func cleanTombstones(tx *gorm.DB, now time.Time) error {
	var upto *int64
	err := tx.Raw("SELECT max(seq) FROM (SELECT seq FROM override_tombstones WHERE at <= ? ORDER BY seq LIMIT ?) AS old",
		newRowTime(now.Add(-keepTombstones)), cleanupBatch).Scan(&upto).Error
	if err != nil || upto == nil {
		return err
	}
	if err := tx.Exec("UPDATE versions SET version = ? WHERE name = ? AND version < ?", *upto, floorOverrides,
		*upto).Error; err != nil {
		return err
	}
	return tx.Where("seq <= ?", *upto).Delete(&tombstoneRow{}).Error
}
