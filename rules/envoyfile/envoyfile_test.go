package envoyfile

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
)

// parse reads one file without a name.
func parse(t *testing.T, text string, opt Options) *Import {
	t.Helper()
	in, err := Parse([]Source{{Data: []byte(text)}}, opt)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return in
}

// created returns the rules of files that are imported into an empty database.
func created(t *testing.T, in *Import) []rules.Rule {
	t.Helper()
	plan, err := in.Plan(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Create
}

// descriptors indents lines below a domain.
func descriptors(lines ...string) string {
	return "domain: shop\ndescriptors:\n- " + strings.Join(lines, "\n  ") + "\n"
}

// one returns a rule for the entry a with a limit of 2 per minute, changed by edit.
func one(edit func(*rules.Rule)) rules.Rule {
	r := rules.Rule{Name: "shop.a", Algorithm: "fixed_window", Limit: 2, WindowMS: 60_000, Addend: "charge",
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "a"}}}, IsActive: true}
	align := "calendar"
	r.Align = &align
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}

func TestParse_EveryKey(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 2}"
	window := func(unit string, ms int64) func() (string, rules.Rule, string) {
		return func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: "+unit+", requests_per_unit: 2}"),
				one(func(r *rules.Rule) { r.WindowMS = ms }), ""
		}
	}
	elements := func(list ...entries.Element) func(*rules.Rule) {
		return func(r *rules.Rule) { r.Descriptor.Entries = list }
	}
	const day = 86_400_000
	for name, test := range map[string]func() (file string, want rules.Rule, report string){
		"second": window("second", 1000), "minute": window("MINUTE", 60_000), "hour": window("Hour", 3_600_000),
		"day": window("day", day), "week": window("week", 7*day), "month": window("month", 30*day),
		"year": window("year", 365*day),
		"unit_multiplier": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, unit_multiplier: 15, requests_per_unit: 2}"),
				one(func(r *rules.Rule) { r.WindowMS = 900_000 }), ""
		},
		"requests_per_unit 0": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 0}"),
				one(func(r *rules.Rule) { r.Limit = 0 }), ""
		},
		"requests_per_unit in hexadecimal": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 0xFF_FF}"),
				one(func(r *rules.Rule) { r.Limit = 65535 }), ""
		},
		"requests_per_unit missing": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute}"),
				one(func(r *rules.Rule) { r.Limit = 0 }), "line 4: requests_per_unit is missing"
		},
		"the most": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 4294967295}"),
				one(func(r *rules.Rule) { r.Limit = 1<<32 - 1 }), ""
		},
		"unlimited": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unlimited: true, unit: fortnight, requests_per_unit: 7}"),
				one(func(r *rules.Rule) { r.Unlimited, r.Limit, r.WindowMS = true, 0, 0 }), ""
		},
		"no rate_limit": func() (string, rules.Rule, string) {
			return descriptors("key: a", "shadow_mode: true"),
				one(func(r *rules.Rule) { r.Unlimited, r.Limit, r.WindowMS = true, 0, 0 }),
				"line 3: \"shop.a\" has no rate_limit: it becomes a rule without a limit\n" +
					"line 4: shadow_mode has no effect without rate_limit"
		},
		"shadow_mode": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "shadow_mode: yes"), one(func(r *rules.Rule) { r.Mode = "shadow" }), ""
		},
		"shadow_mode within rate_limit": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 2, shadow_mode: true}"), one(nil),
				"line 4: shadow_mode has no effect at this place"
		},
		"quota_mode": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "quota_mode: true"), one(func(r *rules.Rule) { r.Quota = true }), ""
		},
		"detailed_metric": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "detailed_metric: true"), one(nil), "line 5: detailed_metric: top keys show"
		},
		"value_to_metric": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "value_to_metric: true"), one(nil), "line 5: value_to_metric: top keys show"
		},
		"value_to_metric false": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "value_to_metric: false"), one(nil), ""
		},
		"name": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 2, name: theirs}"), one(nil), ""
		},
		"replaces nothing": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 2, replaces: [{name: x}]}"), one(nil),
				`line 3: replaces "x", which no limit of the domain has`
		},
		"metadata": func() (string, rules.Rule, string) {
			return descriptors("key: a", limit, "metadata: {team: pay, tier: 2}"),
				one(func(r *rules.Rule) { r.Metadata = map[string]string{"team": "pay", "tier": "2"} }),
				`line 5: metadata "tier" is kept as its JSON text: 2`
		},
		"value": func() (string, rules.Rule, string) {
			return descriptors("key: a", "value: b", limit), one(func(r *rules.Rule) {
				elements(entries.Element{Key: "a", Value: "b"})(r)
				r.Name = "shop.a_b"
			}), ""
		},
		"a value that is a number": func() (string, rules.Rule, string) {
			return descriptors("key: a", "value: 007", limit), one(func(r *rules.Rule) {
				elements(entries.Element{Key: "a", Value: "007"})(r)
				r.Name = "shop.a_007"
			}), ""
		},
		"a value that is a truth": func() (string, rules.Rule, string) {
			return descriptors("key: a", "value: true", limit), one(func(r *rules.Rule) {
				elements(entries.Element{Key: "a", Value: "true"})(r)
				r.Name = "shop.a_true"
			}), ""
		},
		"an empty value": func() (string, rules.Rule, string) {
			return descriptors("key: a", `value: ""`, limit), one(nil), ""
		},
		"a pattern": func() (string, rules.Rule, string) {
			return descriptors("key: a", "value: /api/*/pay", limit), one(func(r *rules.Rule) {
				elements(entries.Element{Key: "a", Pattern: "/api/*/pay"})(r)
				r.Name = "shop.a_api-pay-HASH"
			}), ""
		},
		"share_threshold": func() (string, rules.Rule, string) {
			return descriptors("key: a", `value: "b*"`, "share_threshold: true", limit), one(func(r *rules.Rule) {
				elements(entries.Element{Key: "a", Pattern: "b*"})(r)
				r.Name, r.ShareThreshold = "shop.a_b-HASH", true
			}), ""
		},
		"share_threshold of one of two patterns": func() (string, rules.Rule, string) {
			return descriptors("key: a", `value: "b*"`, "descriptors:", `- {key: c, value: "d*", share_threshold: true, `+
					limit+"}"), one(func(r *rules.Rule) {
					elements(entries.Element{Key: "a", Pattern: "b*"}, entries.Element{Key: "c", Pattern: "d*", Shared: true})(r)
					r.Name = "shop.a_b-.c_d-HASH"
				}), ""
		},
		"nested": func() (string, rules.Rule, string) {
			return descriptors("key: a", "value: x", "shadow_mode: true", "descriptors:", "- {key: b, "+limit+"}"),
				one(func(r *rules.Rule) {
					elements(entries.Element{Key: "a", Value: "x"}, entries.Element{Key: "b"})(r)
					r.Name = "shop.a_x.b"
				}), "line 5: shadow_mode has no effect without rate_limit"
		},
		"aliases and merge keys": func() (string, rules.Rule, string) {
			return descriptors("key: a", "rate_limit: &r", "  unit: minute", "  requests_per_unit: 2", "  name: x",
				"descriptors: []") + "---\ndomain: other\ndescriptors: &none []\n---\ndomain: third\n" +
				"descriptors: *none\n", one(nil), "REFUSED"
		},
	} {
		file, want, report := test()
		if report == "REFUSED" {
			if _, err := Parse([]Source{{Data: []byte(file)}}, Options{}); err == nil ||
				!strings.Contains(err.Error(), `line 14 cannot be read as YAML: unknown anchor 'none'`) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		in := parse(t, file, Options{})
		got := created(t, in)
		if len(got) != 1 {
			t.Errorf("%s: %d rules", name, len(got))
			continue
		}
		got[0].Name = regexp.MustCompile(`-[0-9a-f]{12}$`).ReplaceAllString(got[0].Name, "-HASH")
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		lines := make([]string, len(in.Report))
		for i, n := range in.Report {
			lines[i] = n.String()
		}
		wanted := strings.Split(report, "\n")
		if report == "" {
			wanted = nil
		}
		if !slices.EqualFunc(lines, wanted, strings.HasPrefix) {
			t.Errorf("%s: the report is\n%s\nwant\n%s", name, strings.Join(lines, "\n"), report)
		}
	}
}

func TestParse_RefusesWithFileLineAndReason(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 2}"
	for file, want := range map[string]string{
		"descriptors: []":                       `a.yaml:1: the domain must not be empty`,
		"domain: ''":                            `a.yaml:1: the domain must not be empty`,
		"# nothing":                             `a.yaml:1: the file has no domain`,
		"- a":                                   `a.yaml:1: the document must be an object with a domain, not a list`,
		"domain: d\ndescriptors: {key: a}":      `a.yaml:2: descriptors must be a list, not an object`,
		"domain: d\ndescriptors:\n- x":          `a.yaml:3: a descriptor must be an object, not text`,
		"domain: d\ndomains: e":                 `a.yaml:2: unknown key "domains"`,
		"domain: d\ndomain: e":                  `a.yaml:2: the member "domain" appears twice`,
		"domain: d\n---\ndomain: d":             `a.yaml:3: the domain "d" is already defined at a.yaml:1`,
		"domain: [":                             `a.yaml:1: cannot be read as YAML: did not find expected node content`,
		"\ndomain: 'd\ndescriptors: []\n":       `a.yaml:2: cannot be read as YAML: found unexpected end of stream, while scanning a quoted scalar`,
		"domain: d\ndescriptors:\n\t- key: a\n": `a.yaml:3: the line is indented with a tab, which YAML does not allow: replace each tab by spaces`,
		"domain: d\ndescriptors:\n  - key: a\n  \tvalue: b\n": `a.yaml:4: the line is indented with a tab`,
		"domain: d\n#\x00":                                   `a.yaml:2: contains the control character U+0000, which YAML does not allow`,
		"domain: d\n# \xff":                                  `a.yaml:2: is not valid UTF-8`,
		"domain: d\ndescriptors: &x [*x]":                    `a.yaml:2: the value of the anchor "x" contains itself`,
		"<<: [1]\ndomain: d":                                 `a.yaml:1: << needs an object or a list of objects`,
		"domain: !!int d":                                    `a.yaml:1: "d" is not a value of the tag !!int`,
		"domain: !!binary d":                                 `a.yaml:1: "d" is not a value of the tag !!binary`,
		"[domain]: d":                                        `a.yaml:1: a key must be text`,
		"0.25: d":                                            `a.yaml:1: unknown key "0.25"`,
		descriptors("value: b"):                              `a.yaml:3: descriptor has empty key`,
		descriptors("key: a*"):                               `a.yaml:3: the key "a*" has a *`,
		descriptors("key: a", "limit: 5"):                    `a.yaml:4: unknown key "limit"`,
		descriptors("key: a", "key: b"):                      `a.yaml:4: the member "key" appears twice`,
		descriptors("key: {}"):                               `a.yaml:3: key must be text, not an object`,
		descriptors("key: 1.5"):                              `a.yaml:3: key: write a number with a fraction in quotes`,
		descriptors("key: a", "rate_limit: 5"):               `a.yaml:4: rate_limit must be an object, not a whole number`,
		descriptors("key: a", "rate_limit: {}"):              `a.yaml:4: invalid rate limit unit ""`,
		descriptors("key: a", "rate_limit: {unit: decade}"):  `a.yaml:4: invalid rate limit unit "decade"`,
		descriptors("key: a", "rate_limit: {unit: unknown}"): `a.yaml:4: invalid rate limit unit`,
		descriptors("key: a", "rate_limit: {unit: day, requests_per_unit: -1}"):                             `a.yaml:4: requests_per_unit must be a whole number`,
		descriptors("key: a", "rate_limit: {unit: day, requests_per_unit: 4294967296}"):                     `a.yaml:4: requests_per_unit must be a`,
		descriptors("key: a", "rate_limit: {unit: day, requests_per_unit: '5'}"):                            `a.yaml:4: requests_per_unit must be a`,
		descriptors("key: a", "rate_limit: {unit: day, requests_per_unit: 1.5}"):                            `a.yaml:4: requests_per_unit must be a`,
		descriptors("key: a", "rate_limit: {unit: day, requests_per_unit: 1, unit_multiplier: 0}"):          `a.yaml:4: unit_multiplier must be`,
		descriptors("key: a", "rate_limit: {unit: year, requests_per_unit: 1, unit_multiplier: 11}"):        `a.yaml:4: unit_multiplier must be from 1 to 10`,
		descriptors("key: a", "rate_limit:", "  unlimited: true", "  unit: day"):                            `a.yaml:6: should not specify rate limit unit when unlimited`,
		descriptors("key: a", "rate_limit: {unit: day, name: x, replaces: [{name: x}]}"):                    `a.yaml:4: replaces should not contain name of same descriptor`,
		descriptors("key: a", "rate_limit: {unit: day, replaces: [{name: ''}]}"):                            `a.yaml:4: should not have an empty replaces entry`,
		descriptors("key: a", "rate_limit: {unit: day, replaces: [x]}"):                                     `a.yaml:4: an element of replaces must be an object`,
		descriptors("key: a", "shadow_mode: maybe", limit):                                                  `a.yaml:4: shadow_mode must be true or false`,
		descriptors("key: a", "value: b", "share_threshold: true", limit):                                   `a.yaml:5: share_threshold needs a value with a *`,
		descriptors("key: a", "metadata: [a]", limit):                                                       `a.yaml:4: metadata must be an object`,
		descriptors("key: a", "metadata: {a: ["+strings.Repeat("bbb,", 100)+"]}", limit):                    `a.yaml:4: metadata "a" has more than 255 bytes as JSON text`,
		descriptors("key: a", limit) + "- {key: a, " + limit + "}":                                          `a.yaml:5: duplicate descriptor composite key "shop.a", first at a.yaml:3`,
		descriptors("key: a", "value: '*b'", limit) + "- {key: a, value: 'aa*'}":                            `a.yaml:6: "shop.a_aa*" and the earlier pattern "*b" at a.yaml:3 match some`,
		descriptors("key: a", "value: 'a*'", limit) + "- {key: a, value: 'aa*'}\n- {key: a, value: 'a*'}\n": `a.yaml:7: duplicate descriptor composite key`,
		descriptors("key: a", "value: '*'", "descriptors: [{key: b, value: c, share_threshold: true}]") +
			"- {key: a, value: 'a*', rate_limit: {unit: x}}": `a.yaml:5: share_threshold needs`,
		descriptors("key: "+strings.Repeat("k", 256), limit):                                `must have 1 to 255 bytes`,
		"domain: " + strings.Repeat("d", 256) + "\ndescriptors:\n- {key: a, " + limit + "}": `must have 1 to 255 bytes`,
		"domain: d\ndescriptors:" + strings.Repeat(" [{key: a, descriptors:", 33) + " []" + strings.Repeat("}]",
			33): `a.yaml:2: a descriptor can have at most 32 entries`,
		descriptors("key: a", "value: *b"): `a.yaml:4: cannot be read as YAML: unknown anchor 'b' referenced`,
	} {
		in, err := Parse([]Source{{Name: "a.yaml", Data: []byte(file)}}, Options{})
		if err == nil {
			err = in.Check()
		}
		var invalid *field.ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("%q is not refused: %v", file, err)
			continue
		}
		if got := invalid.Fields[0].Field + ": " + invalid.Fields[0].Message; !strings.Contains(got, want) {
			t.Errorf("%q is refused with\n%s\nwant\n%s", file, got, want)
		}
	}
}

func TestParse_ReportsAllProblemsAtOnce(t *testing.T) {
	_, err := Parse([]Source{
		{Name: "a.yaml", Data: []byte("# a comment\ndomain: a\ndescriptors:\n- {key: x, rate_limit: {unit: eon}}\n" +
			"---\ndomain: [\n---\ndomain: b\ndescriptors:\n- {key: '', rate_limit: {unit: 5}}\n")},
		{Name: "b.yaml", Data: []byte("domain: a\ndescriptors:\n- {key: x, value: [], colour: red}\n")},
	}, Options{})
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range invalid.Fields {
		got = append(got, f.Field)
	}
	want := []string{"a.yaml:4", "a.yaml:6", "a.yaml:10", "a.yaml:10", "b.yaml:1", "b.yaml:3", "b.yaml:3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

func TestParse_MergesDomainsOnlyByRequest(t *testing.T) {
	files := []Source{
		{Name: "a.yaml", Data: []byte("domain: shop\ndescriptors: [{key: a, rate_limit: {unlimited: true}}]")},
		{Name: "b.yaml", Data: []byte("domain: shop\ndescriptors: [{key: b, rate_limit: {unlimited: true}}]")},
	}
	if _, err := Parse(files, Options{}); err == nil {
		t.Error("a domain in two files is accepted")
	}
	in, err := Parse(files, Options{MergeDomains: true})
	if err != nil || in.Rules() != 2 {
		t.Fatal(err, in)
	}
	files[1].Data = []byte(strings.ReplaceAll(string(files[1].Data), "key: b", "key: a"))
	if _, err := Parse(files, Options{MergeDomains: true}); err == nil ||
		!strings.Contains(err.Error(), `b.yaml:2 duplicate descriptor composite key "shop.a", first at a.yaml:2`) {
		t.Errorf("a descriptor in two files: %v", err)
	}
}

func TestParse_PatternsAreThoseThatEnvoyproxyWouldTake(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	for patterns, want := range map[string]string{
		"a* b*":      "a* b*",
		"ab* a*":     "ab* a*",
		"a* ab*":     "a*", // never reached there
		"* ab* a":    "* a",
		"a*b ax*xb":  "a*b",
		"ax*xb a*b":  "ax*xb a*b",
		"a*b a*c":    "a*b a*c",
		"a*x *ab*x":  "refused",
		"abc* *c":    "abc* *c",
		"*c abc*":    "refused",
		"a** a*":     "a**",
		"a* a* b":    "refused",
		"a*b*c a*c*": "a*b*c a*c*",
	} {
		file := "domain: shop\ndescriptors:\n"
		for p := range strings.FieldsSeq(patterns) {
			file += "- {key: k, value: '" + p + "', " + limit
		}
		in, err := Parse([]Source{{Data: []byte(file)}}, Options{})
		if want == "refused" {
			if err == nil {
				t.Errorf("%s is accepted", patterns)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", patterns, err)
			continue
		}
		var got []string
		for _, f := range in.rules {
			got = append(got, f.rule.Descriptor.Entries[0].Value+f.rule.Descriptor.Entries[0].Pattern)
		}
		if missing := len(strings.Fields(patterns)) - len(got); strings.Join(got, " ") != want || missing != len(in.Report) {
			t.Errorf("%s: got %v, report %v", patterns, got, in.Report)
		}
	}
}

func TestParse_KeepsApartWhatEnvoyproxyCannot(t *testing.T) {
	const limit = ", rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	in := parse(t, "domain: shop\ndescriptors:\n- {key: a, value: b_c"+limit+"- {key: a_b, value: c"+limit, Options{})
	got := created(t, in)
	if len(got) != 2 || got[0].Name == got[1].Name || len(in.Report) != 1 ||
		in.Report[0].String() != `line 4: envoyproxy/ratelimit cannot tell "shop.a_b_c" from the descriptor at line 3; here they are two` {
		t.Errorf("%v, report %v", got, in.Report)
	}
}

func TestParse_ReplacesAllLimitsWithTheName(t *testing.T) {
	in := parse(t, `
domain: shop
descriptors:
- {key: a, rate_limit: {name: x, unit: day, requests_per_unit: 1}}
- key: b
  rate_limit: {unit: day, requests_per_unit: 1}
  descriptors: [{key: c, rate_limit: {name: x, unit: day, requests_per_unit: 1}}]
- {key: d, rate_limit: {name: x, unlimited: true}}
- {key: e, rate_limit: {name: y, unit: day, requests_per_unit: 1, replaces: [{name: x}, {name: x}]}}
---
domain: other
descriptors:
- {key: a, rate_limit: {name: x, unit: day, requests_per_unit: 1}}
`, Options{})
	for _, r := range created(t, in) {
		var want []string
		if r.Name == "shop.e" {
			want = []string{"shop.a", "shop.b.c"} // a limit that does not exist is not replaced there
		}
		if diff := cmp.Diff(want, r.Replaces); diff != "" {
			t.Errorf("%s: %s", r.Name, diff)
		}
	}
}

func TestParse_Names(t *testing.T) {
	long := strings.Repeat("x", 80)
	const limit = ", rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	in := parse(t, "domain: Shop\ndescriptors:\n- {key: PATH, value: Pay"+limit+"- {key: path, value: pay/ü"+limit+
		"- {key: "+long+limit+"- {key: "+long+"y"+limit+"- {key: path, value: pay"+limit, Options{})
	var got []string
	for _, r := range created(t, in) {
		got = append(got, r.Name)
		if err := rules.Validate(&r); err != nil {
			t.Error(err)
		}
	}
	want := []string{"shop.path_pay-4b3d0c4ee3d3", "shop.path_pay-9b0cd0c3ac2b", "shop.path_pay-", "shop." +
		strings.Repeat("x", 45) + "-", "shop." + strings.Repeat("x", 45) + "-"}
	for i, name := range got {
		if len(got) != len(want) || !strings.HasPrefix(name, want[i][:strings.LastIndexByte(want[i], '-')]) {
			t.Errorf("the names are %q", got)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(want) {
		t.Errorf("not distinct: %q", got)
	}
}

// TestParse_NamesHaveNoCredentials: clients, metrics and logs see names.
func TestParse_NamesHaveNoCredentials(t *testing.T) {
	const limit = ", rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	in := parse(t, "domain: shop\ndescriptors:\n- {key: api_key, value: sk_live_abcdefghijklmnop"+limit+
		"- {key: api_key, value: sk_live_abcdefghijklmnoq"+limit+"- {key: path, value: /hooks/ghp_abcdefghij"+limit+
		"- {key: api_key"+limit, Options{})
	var got []string
	for _, r := range created(t, in) {
		got = append(got, r.Name)
	}
	slices.Sort(got)
	if len(got) != 4 || got[0] != "shop.api_key" || !strings.HasPrefix(got[1], "shop.api_key-") ||
		!strings.HasPrefix(got[2], "shop.api_key-") || got[1] == got[2] || !strings.HasPrefix(got[3], "shop.path-") {
		t.Errorf("the names are %q", got)
	}
}

// TestParse_TheExamplesOfEnvoyproxy reads the examples in the repository of envoyproxy/ratelimit.
func TestParse_TheExamplesOfEnvoyproxy(t *testing.T) {
	var files []Source
	for _, name := range []string{"config.yaml", "example.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, Source{Name: name, Data: data})
	}
	in, err := Parse(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	plan, err := in.Plan(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Create {
		r := &plan.Create[i]
		b.WriteString(r.Name)
		if len(r.Replaces) > 0 {
			b.WriteString(" replaces " + strings.Join(r.Replaces, " "))
		}
		b.WriteString("\n")
	}
	golden := filepath.Join("testdata", "examples.txt")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
	if len(in.Report) != 1 || !strings.HasPrefix(in.Report[0].String(), "example.yaml:") {
		t.Errorf("the report: %v", in.Report)
	}
}

// problemsOf returns the problems that an error lists.
func problemsOf(t *testing.T, err error) []field.Problem {
	t.Helper()
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("no problems: %v", err)
	}
	return invalid.Fields
}
