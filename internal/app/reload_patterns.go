package app

import (
	"log/slog"

	"sluice/rules"
)

// maxNamedRules bounds how many rules with costly patterns one new set names.
const maxNamedRules = 10

// namePatterns logs what a new set has in force although new rules may not have
// it: patterns that are too large, and too many of them. What the set before, nil
// for none, had as well is passed over.
func namePatterns(log *slog.Logger, before, set *rules.Set) {
	named := 0
	for _, c := range set.Costly() {
		if before != nil {
			was := before.Get(c.Rule.ID)
			if was != nil && was.Rule.When != nil && *was.Rule.When == *c.Rule.When {
				continue
			}
		}
		if named++; named > maxNamedRules {
			log.Warn("further rules with oversized patterns are not listed", "rules", len(set.Costly()))
			break
		}
		log.Warn("the condition of a rule has a larger pattern than new rules may have", "rule", c.Rule.Name, "id", c.Rule.ID,
			"instructions", c.Patterns().Largest, "most", rules.MaxPattern)
	}
	if n := set.Patterns(); n > rules.MaxPatterns && (before == nil || before.Patterns() <= rules.MaxPatterns) {
		log.Warn("the patterns of all rules together are larger than new rules may make them", "instructions", n, "most", rules.MaxPatterns)
	}
}
