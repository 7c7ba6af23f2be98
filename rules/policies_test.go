package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/rules/entries"
)

// everyPolicy is a rule that sets every policy field. Not all of them go together.
func everyPolicy() Rule {
	from := time.Date(2026, 11, 27, 0, 0, 0, 1_000_000, time.UTC)
	until := from.Add(time.Hour)
	return Rule{
		Host:           new("*.example.com"),
		ElasticPercent: new(int64(50)), Pool: new("shop"), Priority: new("critical"),
		Tiers: map[string]TierLimit{"free": {Limit: new(int64(2)), Burst: new(int64(3))}, "staff": {Unlimited: true}},
		Schedule: &Schedule{Zone: "Europe/Berlin", Windows: []ScheduleWindow{
			{Days: []string{"mon", "sun"}, From: "22:00", To: "06:00", Percent: new(int64(0))},
			{From: "09:00", To: "24:00", Limit: new(int64(4)), Burst: new(int64(5))},
		}},
		Calendar:    &Calendar{Every: "month", Zone: "America/New_York", AnchorDay: 31, At: "05:30"},
		KeepPeriods: new(int64(13)), ActiveFrom: &from, ActiveUntil: &until,
		When:     new("attributes.plan == \"é\\n\" &&\n\tweight > 10 // '<>'"),
		ChargeOn: "report", OverLimit: "defer", Defer: &Defer{MaxItems: 5, MaxAgeMS: 1000},
		Candidate:     &Candidate{Algorithm: "gcra", Limit: new(int64(0)), WindowMS: new(int64(500)), Align: new("calendar")},
		Ban:           &Ban{After: 3, WithinMS: 1000, ForMS: 60_000, Grow: 2, MostMS: 3_600_000},
		RetryJitterMS: new(int64(0)), LogPercent: new(int64(0)), NotifyPercent: []int64{80, 100},
		Message: new("{key} <é> \"{{\""), Denial: &Denial{Status: 402, Retry: "never"}, Hidden: true,
		Counts: new("money"), Unit: new("$"), UnitScale: new(int64(1_000_000)),
		Delay: &Delay{After: new(int64(0)), StepMS: 100, MostMS: 2000}, TarpitMS: new(int64(0)),
		Warn:    &Warn{Percent: 90, Set: map[string]string{"model": "<small>"}},
		HotKeys: "leased", HotRaisePercent: new(int64(10)),
		Span: "global", MaxOverPercent: new(int64(5)), Cold: new("open"), CutOff: new("closed"),
		Descriptor: &RuleDescriptor{Domain: "shop", Entries: []entries.Element{
			{Key: "path", Value: "/pay"}, {Key: "file", Pattern: "a*", Shared: true}, {Key: "é"},
		}},
		Addend: "charge", Unlimited: true, Quota: true, Replaces: []string{"other"}, ShareThreshold: true,
		Metadata: map[string]string{"plan": "<gold>"}, Overload: new("deny"), LimitField: new("run_budget"),
	}
}

// policyNames are the members that MarshalPolicies writes.
func policyNames() (names []string) {
	for i := range ruleFields {
		if ruleFields[i].Policy {
			names = append(names, ruleFields[i].Name)
		}
	}
	return names
}

func TestPolicies_EachAloneAndAllTogetherComeBack(t *testing.T) {
	all := everyPolicy()
	text, err := all.MarshalPolicies()
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(members)); !slices.Equal(names, slices.Sorted(slices.Values(policyNames()))) {
		t.Errorf("the members are %q, of the policies %q", names, policyNames())
	}
	texts := []string{"{}", `{"pool":"","when":"","charge_on":""}`, string(text)}
	for name, member := range members {
		texts = append(texts, `{"`+name+`":`+string(member)+`}`)
	}
	for _, want := range texts {
		r := everyPolicy() // what it held does not stay
		r.Name, r.Mode = "kept", "shadow"
		if err := r.UnmarshalPolicies([]byte(want)); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if got, err := r.MarshalPolicies(); err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		if r.Name != "kept" || r.Mode != "shadow" {
			t.Errorf("%s: other fields changed: %+v", want, r)
		}
	}
	var back Rule
	if err := back.UnmarshalPolicies(text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, back); diff != "" {
		t.Errorf("written (-), read (+):\n%s", diff)
	}
}

func TestPolicies_OtherWritingsOfTheSame(t *testing.T) {
	var r Rule
	const text = `{"active_from": "2026-11-27T01:00:00.0019+01:00", "pool": null, "charge_on": null, "tiers": {}, "hot_keys": "exact"}`
	if err := r.UnmarshalPolicies([]byte(text)); err != nil {
		t.Fatal(err)
	}
	const want = `{"active_from":"2026-11-27T00:00:00.001Z"}`
	if got, err := r.MarshalPolicies(); err != nil || string(got) != want || r.Name != "" {
		t.Errorf("got %s, %v, named %q", got, err, r.Name)
	}
}

func TestPolicies_WhatWasDamagedByHandIsRefused(t *testing.T) {
	refused := func(text, field string) {
		t.Helper()
		r := Rule{Name: "a", Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
		r.Normalize()
		_ = r.UnmarshalPolicies([]byte(text)) // what it says of a text is for Validate to refuse
		for range 2 {                         // as it is read, and as an edit of another field writes it
			if err := Validate(&r); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: got %v, want a problem of %q", text, err, field)
			}
			r.Normalize()
		}
		// Once more by what a second build writes of it.
		again, err := r.MarshalPolicies()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.UnmarshalPolicies(again); err != nil || Validate(&r) == nil {
			t.Errorf("%s: written as %s it is read without a problem, %v", text, again, err)
		}
	}
	for _, name := range policyNames() {
		refused(`{"`+name+`": [{"half": 1}]}`, name)
		refused(`{"`+name+`": "{\"half"}`, name)
	}
	refused(`{"over_limit": "defer", "defer": [{"half": 1}]}`, "defer.max_items") // without bounds it has the usual ones
	newer := Rule{Name: "a", Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
	newer.Normalize()
	if err := newer.UnmarshalPolicies([]byte(`{"pool": "shop", "new": {"after": 3}}`)); err != nil {
		t.Error(err)
	}
	if err := Validate(&newer); err == nil || !strings.Contains(err.Error(), `"new"`) {
		t.Errorf("a member that this version does not know: %v", err)
	}
	for _, text := range []string{"", "null", "[]", `"x"`, `{"pool": "shop"`, "{} {}", `{"pool": 5}`} {
		if err := new(Rule).UnmarshalPolicies([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
		refused(text, "pool")
	}
}
