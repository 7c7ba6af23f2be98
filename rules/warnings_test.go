package rules_test

import (
	"testing"

	"sluice/rules"
)

func TestWarnings_NameUnregisteredMethods(t *testing.T) {
	for method, warns := range map[string]bool{"GET": false, "post": false, "*": false, "QUERY": false, "M-SEARCH": true,
		"PSOT": true, "not a method": false} {
		r := rules.Rule{Method: &method}
		r.Normalize()
		if got := rules.Warnings(&r); len(got) > 0 != warns || warns && got[0].Field != "method" {
			t.Errorf("%s: %v", method, got)
		}
	}
	if got := rules.Warnings(&rules.Rule{}); got != nil {
		t.Errorf("every method: %v", got)
	}
}

func TestWarnings_NameLogsOfManyEntries(t *testing.T) {
	for limit, warns := range map[int64]bool{10_000: false, 10_001: true} {
		r := rules.Rule{Algorithm: "sliding_window_log", Limit: limit}
		if got := rules.Warnings(&r); len(got) > 0 != warns || warns && got[0].Field != "limit" {
			t.Errorf("%d: %v", limit, got)
		}
		if r.Algorithm = "sliding_window_counter"; rules.Warnings(&r) != nil {
			t.Errorf("%d of a counter: %v", limit, rules.Warnings(&r))
		}
	}
}
