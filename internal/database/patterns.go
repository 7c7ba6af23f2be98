package database

import (
	"sluice/rules"
	"sluice/rules/when"
)

// countPatterns refuses a rule with a pattern that is too large, unless it was stored with the same condition, and adds
// up the patterns that the change adds. was is nil for a new rule, is is nil for a deleted one.
func (c *change) countPatterns(was, is *rules.Rule) error {
	var before, after *string
	if was != nil {
		before = was.When
	}
	if is != nil {
		if err := rules.CheckPatterns(was, is); err != nil {
			return err
		}
		after = is.When
	}
	if before == nil && after == nil || before != nil && after != nil && *before == *after {
		return nil
	}
	c.patterns += when.SizePatterns(after).Total - when.SizePatterns(before).Total
	return nil
}

// checkPatterns refuses a change that adds patterns beyond the bound for all rules together. If
// the bound is already exceeded, other changes are still allowed.
func (c *change) checkPatterns() error {
	if c.patterns <= 0 {
		return nil
	}
	var conditions []string
	patterns := c.tx.Model(&ruleRow{}).Where("policies ->> 'when' LIKE ?", "%matches%")
	if err := patterns.Pluck("policies ->> 'when'", &conditions).Error; err != nil {
		return err
	}
	total := 0
	for i := range conditions {
		total += when.SizePatterns(&conditions[i]).Total
	}
	if total > when.MaxPatterns {
		return rules.TooManyPatterns("when", total)
	}
	return nil
}
