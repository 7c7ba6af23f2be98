package rulepages

import (
	"strings"
	"testing"

	"sluice/rules"
)

func TestRollback_SaysWhetherCountersAreKept(t *testing.T) {
	for field, kept := range map[string]bool{"limit": true, "cut_off": true, "span": false, "algorithm": false} {
		m := Rollback{Changes: []rules.Change{{Field: "owner"}, {Field: field}}}
		if got := m.counterWords(); (got == "Counters are kept.") != kept || !kept && !strings.Contains(got, field) {
			t.Errorf("%s: %q", field, got)
		}
	}
}
