package database

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// removeOverrides ends all overrides of a rule that goes away itself, and keeps
// new ones from being made meanwhile. A few thousand rows go at once, more with
// the next cleaning; without their rule nobody sees them.
func (c *change) removeOverrides(ruleID int64) error {
	seq, err := bump(c.tx, areaOverrides)
	if err != nil {
		return err
	}
	n, err := deleteOverridesOf(c.tx, ruleID)
	if err != nil || n == 0 {
		return err
	}
	return c.tx.Create(&tombstoneRow{Seq: seq, RuleID: ruleID, At: c.at}).Error
}

// deleteOverridesOf deletes up to cleanupBatch overrides of a rule.
func deleteOverridesOf(tx *gorm.DB, ruleID int64) (int64, error) {
	res := tx.Exec("DELETE FROM rule_overrides WHERE id IN (SELECT id FROM rule_overrides WHERE rule_id = ? ORDER BY id LIMIT ?)", ruleID, cleanupBatch)
	return res.RowsAffected, res.Error
}

const (
	// keepEnded is how long an override that has ended can still be looked at.
	keepEnded = 24 * time.Hour
	// keepTombstones is how long a node may be away and yet load only what changed.
	keepTombstones = 24 * time.Hour
	// cleanupBatch bounds what one call deletes.
	cleanupBatch = 5000
)

// CleanOverrides deletes overrides that ended a day ago or longer, those whose
// rule is gone, and tombstones of a day ago, up to a few thousand of each; more
// says that there may be others. Nothing that is in force changes, so it is no
// change with an actor. Any number of nodes may call it.
func (d *DB) CleanOverrides(ctx context.Context) (more bool, err error) {
	limited, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	err = d.write.WithContext(limited).Transaction(func(tx *gorm.DB) error {
		n, err := cleanOverridesIn(tx, d.now())
		more = n >= cleanupBatch
		return err
	})
	return more, d.classify(ctx, err)
}

// cleanOverridesIn gives how many rows it deleted.
func cleanOverridesIn(tx *gorm.DB, now time.Time) (int64, error) {
	res := tx.Exec("DELETE FROM rule_overrides WHERE id IN (SELECT id FROM rule_overrides WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
		newStamp(now.Add(-keepEnded)), cleanupBatch)
	if res.Error != nil {
		return 0, res.Error
	}
	n := res.RowsAffected
	var orphaned []int64
	if err := tx.Model(&tombstoneRow{}).Where("match_key = ?", "").Pluck("rule_id", &orphaned).Error; err != nil {
		return n, err
	}
	for _, rule := range orphaned {
		deleted, err := deleteOverridesOf(tx, rule)
		n += deleted
		if err != nil || deleted > 0 {
			return n, err
		}
	}
	return n, cleanTombstones(tx, now)
}

// cleanTombstones drops those that every node has long seen, and notes up to
// which change it did.
func cleanTombstones(tx *gorm.DB, now time.Time) error {
	var upto *int64
	err := tx.Raw("SELECT max(seq) FROM (SELECT seq FROM override_tombstones WHERE at <= ? ORDER BY seq LIMIT ?) AS old",
		newStamp(now.Add(-keepTombstones)), cleanupBatch).Scan(&upto).Error
	if err != nil || upto == nil {
		return err
	}
	if err := tx.Exec("UPDATE versions SET version = ? WHERE name = ? AND version < ?", *upto, floorOverrides, *upto).Error; err != nil {
		return err
	}
	return tx.Where("seq <= ?", *upto).Delete(&tombstoneRow{}).Error
}
