package database

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"sluice/rules"
)

// scopePrefix begins the column scope of a rule with a descriptor. What follows are hashes of its domain and of the
// whole descriptor, so that the index of the column finds both. It is the scope of an attribute that no request has: to
// nodes of older builds, which do not know descriptors, it is a valid rule that never applies. noMethod is the column
// method of such a rule, which keeps it out of the index of those nodes: thousands of them do not slow their checks.
const (
	scopePrefix = "attr:descriptor."
	noMethod    = "DESCRIPTOR"
)

// methodOf returns the column method of a rule.
func methodOf(r *rules.Rule) *string {
	if r.Descriptor == nil {
		return r.Method
	}
	return new(noMethod)
}

// scopeOf returns the column scope of a rule.
func scopeOf(r *rules.Rule) string {
	if r.Descriptor == nil {
		return r.Scope
	}
	return scopePrefix + hashed(r.Descriptor.Domain, 8) + "." + hashed(r.Descriptor.Identity(), 16)
}

// hashed returns the first bytes of a hash as hexadecimal digits.
func hashed(text string, bytes int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}

// ofDomain selects the rules that have a descriptor of a domain.
func ofDomain(tx *gorm.DB, domain string) *gorm.DB {
	return tx.Where(`scope LIKE ? ESCAPE '\'`, scopePrefix+hashed(domain, 8)+".%")
}

// writes notes the descriptor of a rule that the change stores.
func (c *change) writes(row *ruleRow, r *rules.Rule) {
	if r.Descriptor != nil && r.IsActive {
		c.descriptors = append(c.descriptors, row.Scope)
	}
}

// checkDescriptors refuses the change if a rule that it stores has the descriptor of another active rule. It runs at
// the end, because a plan may exchange the descriptors of two rules.
func (c *change) checkDescriptors() error {
	for some := range slices.Chunk(c.descriptors, insertBatch) {
		var taken, names []string
		if err := c.tx.Model(&ruleRow{}).Where("scope IN ? AND is_active = ?", some, true).
			Group("scope").Having("COUNT(*) > 1").Limit(1).Pluck("scope", &taken).Error; err != nil {
			return err
		}
		if len(taken) == 0 {
			continue
		}
		if err := c.tx.Model(&ruleRow{}).Where("scope = ? AND is_active = ?", taken[0], true).
			Order("id").Limit(2).Pluck("name", &names).Error; err != nil {
			return err
		}
		return rules.DescriptorTaken(names...)
	}
	return nil
}

// completeRevisions adds to the versions that an older build recorded what that build did not know: the rule kept its
// descriptor or its host and what belongs to them, so they are those of the version before.
func completeRevisions(tx *gorm.DB, rows []revisionRow) error {
	for i := range rows {
		row := &rows[i]
		older := map[string]json.RawMessage{}
		if json.Unmarshal([]byte(row.Rule), &older) != nil {
			continue
		}
		missing := ""
		switch scope := string(older["scope"]); {
		case strings.HasPrefix(scope, `"`+scopePrefix):
			missing = "descriptor"
		case strings.HasPrefix(scope, `"`+hostPrefix):
			missing = "newer"
		}
		if missing == "" || older[missing] != nil {
			continue
		}
		var known []revisionRow
		err := tx.Where("rule_id = ? AND version < ? AND rule ->> ? IS NOT NULL", row.RuleID, row.Version, missing).
			Order("version DESC").Limit(1).Find(&known).Error
		if err != nil {
			return err
		}
		members := map[string]json.RawMessage{}
		if len(known) == 0 || json.Unmarshal([]byte(known[0].Rule), &members) != nil {
			continue
		}
		maps.Copy(members, older)
		if missing == "descriptor" {
			members["scope"], members["method"] = json.RawMessage(`""`), json.RawMessage(`null`)
		}
		text, err := json.Marshal(members)
		if err != nil {
			return err
		}
		row.Rule = string(text)
	}
	return nil
}
