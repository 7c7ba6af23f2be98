package envoyfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/rulefile"
)

const glooSettings = `apiVersion: gloo.solo.io/v1
kind: Settings
metadata: {name: default, namespace: gloo-system}
spec:
  ratelimit:
    setDescriptors:
    - simpleDescriptors: [{key: type, value: a}, {key: number, value: one}]
      rateLimit: {requestsPerUnit: 1, unit: MINUTE}
    - simpleDescriptors: [{key: type}, {key: number}]
      rateLimit: {requestsPerUnit: 10, unit: MINUTE}
    - simpleDescriptors: [{key: type}]
      rateLimit: {requestsPerUnit: 5, unit: HOUR}
    - rateLimit: {requestsPerUnit: 100, unit: SECOND}
      alwaysApply: true
`

func TestParse_SetsOfGloo(t *testing.T) {
	in := parse(t, glooSettings, Options{})
	type want struct {
		name, scope, when string
		limit, window     int64
	}
	var got []want
	for _, r := range created(t, in) {
		w := want{name: r.Name, scope: r.Scope, limit: r.Limit, window: r.WindowMS}
		if r.When != nil {
			w.when = *r.When
		}
		if r.Descriptor != nil || r.Algorithm != "fixed_window" || *r.Align != "calendar" || r.Addend == "charge" {
			t.Errorf("%s: %+v", r.Name, r)
		}
		got = append(got, w)
	}
	if diff := cmp.Diff([]want{
		{"set.custom", "global", "", 100, 1000},
		{"set.custom.number.type", "attr:number+attr:type",
			`not (attributes["number"] == "one" and attributes["type"] == "a")`, 10, 60_000},
		{"set.custom.number_one.type_a", "global", `attributes["number"] == "one" and attributes["type"] == "a"`, 1, 60_000},
		{"set.custom.type", "attr:type",
			`not (attributes["number"] == "one" and attributes["type"] == "a") and not (attributes["number"] != "")`,
			5, 3_600_000},
	}, got, cmp.AllowUnexported(want{})); diff != "" {
		t.Error(diff)
	}
	if len(in.Report) != 1 || !strings.Contains(in.Report[0].Message,
		`{"domain":"custom","entries":{"number":"attr:number","type":"attr:type"}}`) {
		t.Errorf("report %v", in.Report)
	}
}

// Importing again changes nothing, and a set that the file no longer has is deleted. Other rules stay.
func TestPlan_SetsOfGloo(t *testing.T) {
	list := created(t, parse(t, glooSettings, Options{}))
	for i := range list {
		list[i].ID, list[i].Version = int64(i+1), 1
	}
	list[0].FailMode = rules.FailClosed // an edit that stays
	list = append(list, rules.Rule{ID: 9, Name: "set.customer", Scope: "ip", Limit: 1, WindowMS: 1000, IsActive: true})
	fewer := strings.Replace(glooSettings, "    - simpleDescriptors: [{key: type}]\n"+
		"      rateLimit: {requestsPerUnit: 5, unit: HOUR}\n", "", 1)
	for file, want := range map[string][]string{
		glooSettings: nil,
		fewer:        {"-set.custom.type"},
		strings.Replace(glooSettings, "requestsPerUnit: 10,", "requestsPerUnit: 11,", 1): {"~set.custom.number.type.limit"},
	} {
		plan, err := parse(t, file, Options{}).Plan(list, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, changes(&plan)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestParse_SetsThatAreRefused(t *testing.T) {
	set := func(text string) string { return "domain: shop\nsetDescriptors:\n- " + text + "\n" }
	for text, want := range map[string]string{
		set("simpleDescriptors: [{key: a}]"):                                                "a set must have a rate_limit",
		set("{simpleDescriptors: [{key: 'a b'}], rateLimit: {unit: DAY}}"):                  `the key "a b" must be the name`,
		set("{simpleDescriptors: [{key: a}, {key: a}], rateLimit: {unit: DAY}}"):            `the key "a" is in the set twice`,
		set("{simpleDescriptors: [7], rateLimit: {unit: DAY}}"):                             "must be an object",
		set("{rateLimit: {unlimited: true}}"):                                               "unlimited and replaces",
		set("{rateLimit: {unit: DAY}, weight: 1}"):                                          `unknown key "weight"`,
		set("{rateLimit: {unit: DAY}}") + "- {rateLimit: {unit: DAY}, alwaysApply: true}\n": "the set stands twice",
		set("7"): "a set must be an object",
		set("{rateLimit: {unit: DAY}}") + "descriptors: [{key: a, rate_limit: {unit: day}}]": "descriptors and sets",
		"setDescriptors: [{rateLimit: {unit: DAY}}]":                                         "the domain must not be empty",
	} {
		_, err := Parse([]Source{{Data: []byte(text)}}, Options{})
		if problems := problemsOf(t, err); !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s\n%v", text, problems)
		}
	}
	in := parse(t, set("{simpleDescriptors: [{key: a}], rateLimit: {unit: DAY}}\n")+
		"- {simpleDescriptors: [{key: b}, {key: a, value: x}], rateLimit: {unit: DAY}}\n", Options{})
	if in.Rules() != 1 || !slices.ContainsFunc(in.Report, func(n Note) bool {
		return strings.Contains(n.Message, "is left out: the set at line 3 comes first")
	}) {
		t.Errorf("%d rules, %v", in.Rules(), in.Report)
	}
}

// manySets returns a domain of sets of several keys. If apart, no request has all values of two of them.
func manySets(domain string, sets, keys int, apart bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ndomain: %s\nsetDescriptors:\n", domain)
	for i := range sets {
		b.WriteString("- rateLimit: {unit: DAY}\n  simpleDescriptors:\n")
		for k := range keys {
			name := fmt.Sprintf("k%d", k)
			if !apart {
				name = fmt.Sprintf("k%d.%d", i, k)
			}
			fmt.Fprintf(&b, "  - {key: %s, value: v%d}\n", name, i)
		}
	}
	return b.String()
}

func TestParse_ManySetsMakeNoLongConditions(t *testing.T) {
	_, err := Parse([]Source{{Data: []byte(manySets("shop", 300, 5, false))}}, Options{})
	if problems := problemsOf(t, err); !strings.Contains(problems[0].Message, "would have more than 1024 bytes") {
		t.Errorf("got %v", problems[:min(3, len(problems))])
	}
	in := parse(t, manySets("shop", 300, 5, true), Options{})
	if in.Rules() != 300 {
		t.Errorf("%d rules of sets that are apart", in.Rules())
	}
	file := manySets("a", 1000, 25, true) + manySets("b", 1000, 25, true)
	_, err = Parse([]Source{{Data: []byte(file)}}, Options{})
	if large := new(rulefile.TooLargeError); !errors.As(err, &large) || !strings.Contains(err.Error(), "too many sets") {
		t.Errorf("many keys: %.300v", err)
	}
}

// Of random sets those apply to a random request that Gloo would apply: the first that matches, and those that always
// apply.
func TestSets_ApplyAsInGloo(t *testing.T) {
	keys, values := []string{"a", "b", "c"}, []string{"", "x", "y"}
	rapid.Check(t, func(t *rapid.T) {
		file := "domain: shop\nsetDescriptors:\n"
		type gloo struct {
			set    set
			always bool
		}
		var sets []gloo
		for range rapid.IntRange(1, 5).Draw(t, "sets") {
			g := gloo{set: set{}, always: rapid.Bool().Draw(t, "always")}
			var simple []string
			for _, key := range keys {
				if rapid.Bool().Draw(t, "has") {
					g.set[key] = rapid.SampledFrom(values).Draw(t, "value")
					simple = append(simple, fmt.Sprintf("{key: %s, value: '%s'}", key, g.set[key]))
				}
			}
			if slices.ContainsFunc(sets, func(e gloo) bool { return maps.Equal(e.set, g.set) }) {
				continue
			}
			// The limit tells the set.
			file += fmt.Sprintf("- {simpleDescriptors: [%s], alwaysApply: %t, rateLimit: {unit: DAY, requestsPerUnit: %d}}\n",
				strings.Join(simple, ", "), g.always, len(sets)+1)
			sets = append(sets, g)
		}
		in, err := Parse([]Source{{Data: []byte(file)}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := in.Plan(nil, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range plan.Create {
			plan.Create[i].ID = int64(i + 1)
		}
		compiled, err := match.CompileSource(rules.Source{Rules: plan.Create}, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		request := map[string]string{}
		for _, key := range keys {
			if v := rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "fact"); v != "" {
				request[key] = v
			}
		}
		var want, got []int64
		first := true
		for i, g := range sets {
			applies := true
			for key, value := range g.set {
				applies = applies && request[key] != "" && (value == "" || request[key] == value)
			}
			if applies && (first || g.always) {
				want = append(want, int64(i+1))
			}
			first = first && !applies
		}
		for _, m := range compiled.Match(&match.Descriptor{Attributes: request}, 1, time.UnixMilli(0), nil) {
			got = append(got, m.Rule.Limit.Count)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v under\n%s\n%s", request, file, diff)
		}
	})
}
