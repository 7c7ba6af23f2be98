package rules

import (
	"reflect"
	"testing"
	"time"
)

// worded is a valid rule in normal form.
func worded(edit func(*Rule)) *Rule {
	r := &Rule{Name: "charges", Scope: "user", Route: new("/v1/charges"), Method: new("POST"), Limit: 100,
		WindowMS: 60_000, IsActive: true}
	if edit != nil {
		edit(r)
	}
	r.Normalize()
	return r
}

func TestMerge_TakesTheNamedFieldsAndNoOthers(t *testing.T) {
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	theirs := worded(func(r *Rule) { r.ID, r.Version, r.Limit, r.Burst = 7, 4, 50, new(int64(3)) })
	ours := worded(func(r *Rule) {
		r.Version, r.Limit, r.Description, r.Route = 3, 70, "ours", nil
		r.Tiers, r.ActiveFrom = map[string]TierLimit{"free": {Limit: new(int64(1))}}, &from
	})
	all := make([]string, len(ruleFields))
	for i := range ruleFields {
		all[i] = ruleFields[i].Name
	}
	got, err := Merge(theirs, ours, all)
	if err != nil || len(Diff(&got, ours)) > 0 || got.ID != 7 || got.Version != 4 {
		t.Errorf("all of ours: %v, %v", err, Diff(&got, ours))
	}
	if got, err = Merge(theirs, ours, nil); err != nil || !reflect.DeepEqual(got, *theirs) {
		t.Errorf("none of ours: %v, %v", err, Diff(&got, theirs))
	}
	got, err = Merge(theirs, ours, []string{"limit", "route", "tiers", "active_from"})
	if err != nil || got.Limit != 70 || got.Route != nil || got.Description != "" || got.Burst == nil ||
		!got.ActiveFrom.Equal(from) || *got.Tiers["free"].Limit != 1 {
		t.Errorf("some of ours: %v, %+v", err, got)
	}
	if _, err = Merge(theirs, ours, []string{"version"}); err == nil {
		t.Error("the version was taken")
	}
}
