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

// withoutTaken returns the edits without those that give a rule the descriptor of another active rule. It reports these
// in out.
func (c *change) withoutTaken(e *edits, out *rules.BulkResult) (edits, error) {
	var asked []string
	wants := make([]*string, len(e.is))
	for i := range e.is {
		was, is := descriptorOf(&e.was[i]), descriptorOf(&e.is[i])
		if is != nil && e.is[i].IsActive && (!e.was[i].IsActive || was == nil || *was != *is) {
			wants[i], asked = is, append(asked, *is)
		}
	}
	if asked == nil {
		return *e, nil
	}
	var active []ruleRow
	err := c.tx.Select("name", "descriptor").Where("descriptor IN ? AND is_active = ?", asked, true).Find(&active).Error
	if err != nil {
		return edits{}, err
	}
	holder := make(map[string]string, len(active))
	for i := range active {
		holder[*active[i].Descriptor] = active[i].Name
	}
	var free edits
	for i := range e.is {
		if wants[i] != nil {
			if other, taken := holder[*wants[i]]; taken {
				out.Skip(e.was[i].ID, e.was[i].Name, rules.DescriptorTaken(e.was[i].Name, other))
				continue
			}
			holder[*wants[i]] = e.is[i].Name
		}
		free.add(&e.was[i], &e.is[i])
	}
	return free, nil
}
