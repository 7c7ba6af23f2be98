package match

import (
	"slices"

	"sluice/rules/when"
)

// Patterns returns the size of the patterns in the rule's condition.
func (c *Compiled) Patterns() when.PatternSize {
	if c.when == nil {
		return when.PatternSize{}
	}
	return c.when.Patterns()
}

// Patterns returns the number of instructions of the patterns of all active rules.
func (s *Set) Patterns() int { return s.patterns }

// OversizedPatterns returns the active rules with a pattern above when.MaxPattern, ordered by id. They were stored
// before that bound existed.
func (s *Set) OversizedPatterns() []*Compiled { return slices.Collect(s.oversized.all()) }

// countPatterns updates the set's pattern figures.
func (s *Set) countPatterns(drop, put []*Compiled) {
	for _, c := range drop {
		s.patterns -= c.Patterns().Total
	}
	for _, c := range put {
		s.patterns += c.Patterns().Total
	}
	s.oversized = s.oversized.with(onlyOversized(drop), onlyOversized(put), compareRules)
}

func onlyOversized(rules []*Compiled) (oversized []*Compiled) {
	for _, c := range rules {
		if c.Patterns().Largest > when.MaxPattern {
			oversized = append(oversized, c)
		}
	}
	return oversized
}
