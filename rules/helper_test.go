package rules

import (
	"fmt"
	"time"
)

func ptr[T any](v T) *T { return &v }

// noon is when tests that are not about time happen.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// rule makes a valid rule to vary; tests outside of this package have rulestest.Rule.
func rule(id int64, edit func(*Rule)) Rule {
	r := Rule{ID: id, Name: fmt.Sprintf("rule-%d", id), Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}
