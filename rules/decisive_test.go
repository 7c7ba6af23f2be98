package rules_test

import (
	"testing"

	"sluice/rules"
)

func TestDecisive_LeavesOutWhatChangesNoDecision(t *testing.T) {
	was := rules.Rule{Name: "charges", Scope: "user", Limit: 60, WindowMS: 60_000,
		FailMode: rules.FailOpen, IsActive: true}
	for name, tt := range map[string]struct {
		edit func(*rules.Rule)
		want int
	}{
		"description":             {func(r *rules.Rule) { r.Description = "new" }, 0},
		"owner and fail mode":     {func(r *rules.Rule) { r.Owner, r.FailMode = new("ops"), rules.FailClosed }, 0},
		"message":                 {func(r *rules.Rule) { r.Message = new("slow down") }, 0},
		"candidate":               {func(r *rules.Rule) { r.Candidate = &rules.Candidate{Limit: new(int64(3))} }, 0},
		"limit":                   {func(r *rules.Rule) { r.Limit = 3 }, 1},
		"limit and description":   {func(r *rules.Rule) { r.Limit, r.Description = 3, "new" }, 1},
		"route":                   {func(r *rules.Rule) { r.Route = new("/v1/charges") }, 1},
		"disabled, and in shadow": {func(r *rules.Rule) { r.IsActive, r.Mode = false, rules.ModeShadow }, 2},
	} {
		is := was.Clone()
		tt.edit(&is)
		if got := rules.Decisive(rules.Diff(&was, &is)); len(got) != tt.want {
			t.Errorf("%s: %+v, want %d", name, got, tt.want)
		}
	}
}
