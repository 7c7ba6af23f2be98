package database

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"sluice/rules"
)

// descriptorOf returns the column descriptor of a rule: a hash of its descriptor, nil if it has none.
func descriptorOf(r *rules.Rule) *string {
	if r.Descriptor == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(r.Descriptor.Identity()))
	return new(hex.EncodeToString(sum[:16]))
}

// writes notes the descriptor of a rule that the change stores.
func (c *change) writes(row *ruleRow, r *rules.Rule) {
	if row.Descriptor != nil && r.IsActive {
		c.descriptors = append(c.descriptors, *row.Descriptor)
	}
}

// checkDescriptors refuses the change if a rule that it stores has the descriptor of another active rule. It runs at
// the end, because a plan may exchange the descriptors of two rules.
func (c *change) checkDescriptors() error {
	for some := range slices.Chunk(c.descriptors, insertBatch) {
		var taken, names []string
		if err := c.tx.Model(&ruleRow{}).Where("descriptor IN ? AND is_active = ?", some, true).
			Group("descriptor").Having("COUNT(*) > 1").Limit(1).Pluck("descriptor", &taken).Error; err != nil {
			return err
		}
		if len(taken) == 0 {
			continue
		}
		if err := c.tx.Model(&ruleRow{}).Where("descriptor = ? AND is_active = ?", taken[0], true).
			Order("id").Limit(2).Pluck("name", &names).Error; err != nil {
			return err
		}
		return rules.DescriptorTaken(names...)
	}
	return nil
}
