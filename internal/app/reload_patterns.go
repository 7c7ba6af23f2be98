package app

import (
	"log/slog"

	"sluice/rules/match"
	"sluice/rules/when"
)

// maxLoggedRules is how many rules with oversized patterns are logged for a new set.
const maxLoggedRules = 10

// logOversizedPatterns logs patterns of a new set that exceed the limits for new
// rules, each of them or all together. Patterns that were already in the set before,
// which may be nil, are not logged again.
func logOversizedPatterns(log *slog.Logger, before, set *match.Set) {
	logged := 0
	for _, c := range set.OversizedPatterns() {
		if before != nil {
			was := before.Get(c.Rule.ID)
			if was != nil && was.Rule.When != nil && *was.Rule.When == *c.Rule.When {
				continue
			}
		}
		if logged++; logged > maxLoggedRules {
			log.Warn("further rules with oversized patterns are not listed", "rules", len(set.OversizedPatterns()))
			break
		}
		log.Warn("the condition of a rule has a larger pattern than new rules may have", "rule", c.Rule.Name, "id", c.Rule.ID,
			"instructions", c.Patterns().Largest, "most", when.MaxPattern)
	}
	if n := set.Patterns(); n > when.MaxPatterns && (before == nil || before.Patterns() <= when.MaxPatterns) {
		log.Warn("the patterns of all rules together are larger than new rules may make them", "instructions", n, "most",
			when.MaxPatterns)
	}
}
