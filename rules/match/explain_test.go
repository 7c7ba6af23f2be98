package match

import (
	"fmt"
	"testing"

	"sluice/rules"

	"github.com/google/go-cmp/cmp"
)

func TestExplain_SaysWhyEachRuleMatchedOrNot(t *testing.T) {
	s := compile(t,
		rule(1, func(r *rules.Rule) { r.Route = ptr("/v2/*") }),
		rule(2, func(r *rules.Rule) { r.Method = ptr("PUT") }),
		rule(3, func(r *rules.Rule) { r.Scope = "user+attr:tenant" }),
		rule(4, func(r *rules.Rule) { r.WeightField = ptr("bytes") }),
		rule(5, nil),
		rule(6, func(r *rules.Rule) { r.IsActive = false }),
	)
	d := Descriptor{Method: "post", Route: "/v1/charges/", User: "42"}
	var got []string
	for _, c := range s.Explain(&d, 2, noon) {
		got = append(got, fmt.Sprintf("%d %s %s key=%s display=%s weight=%d", c.Rule.Rule.ID, c.Reason, c.Sentence, c.Key,
			c.Display, c.Weight))
	}
	want := []string{
		"5 matched The rule applies. key={user:42}|5|sc display=user:42 weight=2",
		"4 missing_field The rule takes the weight from the field bytes; the request does not have it and is not " +
			"limited by the rule. To deny such requests, add a rule with limit 0 and the condition \"bytes\" not in fields. " +
			"key= display= weight=0",
		"3 missing_fact The rule counts by user+attr:tenant; the request has no attr:tenant. key= display= weight=0",
		`2 method The rule applies to method PUT; the request's method is "POST". key= display= weight=0`,
		`1 route The rule applies to route /v2/*; the request's route "/v1/charges" does not match. key= display= weight=0`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestExplain_TellsAbsentFromDifferent(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) { r.Route = ptr("/x") }),
		rule(2, func(r *rules.Rule) { r.Method = ptr("PUT") }))
	all := s.Explain(&Descriptor{}, 1, noon)
	if all[0].Sentence != "The rule applies to method PUT; the request has no method." ||
		all[1].Sentence != "The rule applies to route /x; the request has no route." {
		t.Errorf("got %+v", all)
	}
}

func TestExplain_GivesAllMatchesAndBoundsTheRest(t *testing.T) {
	var rs []rules.Rule
	for i := range 500 {
		rs = append(rs, rule(int64(i+1), func(r *rules.Rule) {
			if i >= 20 {
				r.Route = ptr(fmt.Sprintf("/r%d", i))
			}
			if i == 499 {
				r.Route, r.Method = nil, ptr("PUT")
			}
		}))
	}
	s := compile(t, rs...)
	d := Descriptor{User: "42"}
	all := s.Explain(&d, 1, noon)
	if len(all) != 20+ExplainOthers || !all[19].Matched || all[20].Reason != ReasonMethod || all[21].Rule.Rule.ID != 21 {
		t.Errorf("got %d, then %+v", len(all), all[20])
	}
	if n := len(s.ExplainSome(&d, 1, noon, 0)); n != 20 {
		t.Errorf("got %d, want the 20 matches alone", n)
	}
	if n := len(s.ExplainSome(&d, 1, noon, -1)); n != 20 {
		t.Errorf("got %d, want the 20 matches alone", n)
	}
}
