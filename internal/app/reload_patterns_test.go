package app

import (
	"strings"
	"testing"

	"sluice/internal/database"
	"sluice/rules"
)

func TestReload_NamesOversizedPatternsOnceAndKeepsThemInForce(t *testing.T) {
	when := `user matches "^(a?){1000}b$"`
	oversized := goodRule(1, "of-before")
	oversized.When = &when
	s := &shelf{rules: []rules.Rule{oversized}, versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	pass(t, r)
	if set := r.sets.Load(); set == nil || set.Len() != 1 {
		t.Fatal("the rule is not in force")
	}
	s.set(func(s *shelf) {
		s.versions.Rules = at(2)
		s.rules = append(s.rules, goodRule(2, "other"))
	})
	pass(t, r)
	if n := strings.Count(log.String(), "rule=of-before"); n != 1 || !strings.Contains(log.String(), "instructions=4005") {
		t.Errorf("named %d times, want once with its size:\n%s", n, log.String())
	}
}
