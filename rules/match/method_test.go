package match

import (
	"fmt"
	"slices"
	"testing"

	"sluice/rules"
	"sluice/rules/override"
)

func keyTexts(s *Set, d Descriptor) []string {
	var keys []string
	for _, m := range s.Match(&d, 1, noon, nil) {
		keys = append(keys, string(m.Key))
	}
	return keys
}

func TestMatch_ARuleForGetCountsHeadInTheSameBucket(t *testing.T) {
	s := compile(t,
		rule(1, func(r *rules.Rule) { r.Method = ptr("GET") }),
		rule(2, func(r *rules.Rule) { r.Method = ptr("HEAD") }),
		rule(3, func(r *rules.Rule) { r.Method, r.When = ptr("GET"), ptr(`method == "GET"`) }),
		rule(4, func(r *rules.Rule) { r.Method, r.Scope = ptr("GET"), "user+method" }),
		rule(5, func(r *rules.Rule) { r.Scope = "user+method" }),
		rule(6, func(r *rules.Rule) { r.Method = ptr("POST") }),
		rule(7, func(r *rules.Rule) { r.Method, r.Route, r.Host = ptr("GET"), ptr("/x/*"), ptr("*.example.com") }),
	)
	want := map[string][]string{
		"head": {"{user:42}|1|sc", "{user:42}|2|sc", "{user:42}+method:GET|4|sc", "{user:42}+method:HEAD|5|sc",
			"{user:42}|7|sc"},
		"GET": {"{user:42}|1|sc", "{user:42}|3|sc", "{user:42}+method:GET|4|sc", "{user:42}+method:GET|5|sc",
			"{user:42}|7|sc"},
		"POST": {"{user:42}+method:POST|5|sc", "{user:42}|6|sc"},
	}
	for method, want := range want {
		got := keyTexts(s, Descriptor{Method: method, Route: "/x/y", Host: "a.example.com", User: "42"})
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", method, got, want)
		}
	}
	var of []string
	for _, c := range s.ForRoute("HEAD", "/x") {
		of = append(of, fmt.Sprint(c.Rule.ID))
	}
	if want := []string{"1", "2", "3", "4", "5", "7"}; !slices.Equal(of, want) {
		t.Errorf("rules of HEAD /x: got %s, want %s", of, want)
	}
}

func TestMatch_AnOverrideOfAMethodCoversHead(t *testing.T) {
	r := rule(1, func(r *rules.Rule) { r.Method, r.Scope = ptr("GET"), "user+method" })
	for _, key := range []string{"user:42+method:GET", "user:42+method:G*"} {
		s := withOverrides(t, r, rules.Override{Key: key, Unlimited: true})
		if got := keyTexts(s, Descriptor{Method: "HEAD", User: "42"}); got != nil {
			t.Errorf("%s: got %q, want none", key, got)
		}
	}
}

func TestExplain_SaysThatARuleForGetCountsHead(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) { r.Method = ptr("GET") }),
		rule(2, func(r *rules.Rule) { r.Method, r.When = ptr("GET"), ptr(`method == "GET"`) }))
	all := s.Explain(&Descriptor{Method: "HEAD", User: "42"}, 1, noon)
	if got, want := all[0].Sentence, "The rule applies. A rule for GET counts HEAD too."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := all[1].Sentence,
		`The rule's condition is false: method == "GET" A rule for GET counts HEAD too.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMatch_FoldedRoutesCompareInAnyCase(t *testing.T) {
	list := []rules.Rule{
		rule(1, func(r *rules.Rule) { r.Route, r.Scope = ptr("/V1/Pay"), "route" }),
		rule(2, func(r *rules.Rule) { r.Route = ptr("/v1/{ID}") }),
		rule(3, func(r *rules.Rule) { r.Route = ptr("/V1/*") }),
		rule(4, func(r *rules.Rule) { r.When = ptr(`route == "/v1/pay"`) }),
	}
	folded, err := Compile(list, 1, Options{FoldRoute: true})
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"{route:/v1/pay}|1|sc", "{user:42}|2|sc", "{user:42}|3|sc", "{user:42}|4|sc"}
	for _, route := range []string{"/v1/pay", "/V1/PAY", "/v1/%50ay"} {
		if got := keyTexts(folded, Descriptor{Route: route, User: "42"}); !slices.Equal(got, all) {
			t.Errorf("%s: got %q, want %q", route, got, all)
		}
		if got := len(folded.ForRoute("", route)); got != 4 {
			t.Errorf("%s has %d rules, want 4", route, got)
		}
		for _, x := range folded.Explain(&Descriptor{Route: route, User: "42"}, 1, noon) {
			if !x.Matched {
				t.Errorf("%s: %s", route, x.Sentence)
			}
		}
	}
	if got, want := keyTexts(compile(t, list...), Descriptor{Route: "/V1/PAY", User: "42"}),
		[]string{"{user:42}|3|sc"}; !slices.Equal(got, want) {
		t.Errorf("without folding: got %q, want %q", got, want)
	}
	without, err := folded.Apply(Delta{Removed: []int64{1, 2}, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := keyTexts(without, Descriptor{Route: "/V1/PAY", User: "42"}); !slices.Equal(got, all[2:]) {
		t.Errorf("after deletions: got %q, want %q", got, all[2:])
	}
}

func TestMatch_OverridesOfFoldedRoutesCompareInAnyCase(t *testing.T) {
	opt := Options{FoldRoute: true}
	r := rule(1, func(r *rules.Rule) { r.Scope = "route" })
	for _, key := range []string{"route:/V1/Pay", "route:/V1/P*"} {
		o := rules.Override{RuleID: 1, Key: key, Blocked: true}
		if err := ResolveOverride(&o, &r, opt, noon); err != nil {
			t.Fatal(err)
		}
		s, err := Compile([]rules.Rule{r}, 1, opt)
		if err != nil {
			t.Fatal(err)
		}
		e := override.New().Edit()
		e.Add(override.Row{RuleID: 1, ID: 1, Match: o.Match, Prefix: o.Prefix, Blocked: true, Limit: -1, Burst: -1})
		s = s.WithOverrides(e.Done(1, nowMS))
		if ms := s.Match(&Descriptor{Route: "/v1/pAY"}, 1, noon, nil); len(ms) != 1 || !ms[0].Override.Blocked {
			t.Errorf("%s: got %+v", key, ms)
		}
	}
}
