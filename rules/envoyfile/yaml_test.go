package envoyfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse_ReadsAllOfYAML: what the YAML library of envoyproxy/ratelimit reads is read here with the same result.
func TestParse_ReadsAllOfYAML(t *testing.T) {
	const head, limit = "domain: shop\ndescriptors:\n", "rate_limit: {unit: minute, requests_per_unit: 2}"
	for text, want := range map[string]string{
		// texts
		head + "- key: a\n  value: |\n    b\n    c\n  " + limit + "\n":              `a="b\nc\n"`,
		head + "- key: a\n  value: |-\n    b\n  " + limit + "\n":                    `a="b"`,
		head + "- key: >-\n    a\n    b\n  value: >2+\n     c\n\n  " + limit + "\n": `a b=" c\n\n"`,
		head + "- key: a\n  value: b\n    c\n  " + limit + "\n":                     `a="b c"`,
		head + "- key: a\n  value: \"b\\\n    c\\u00e9\"\n  " + limit + "\n":        `a="bcé"`,
		head + "- key: a\n  value: it's 5|6 > 4 # <<\n  " + limit + "\n":            `a="it's 5|6 > 4"`,
		head + "- 'key': a\n  \"value\": 'b''c'\n  " + limit + "\n":                 `a="b'c"`,
		// tags
		head + "- key: !!str 1\n  value: !!str true\n  " + limit + "\n":                                    `1="true"`,
		head + "- key: a\n  rate_limit: {unit: minute, requests_per_unit: !!int \"2\"}\n":                  `a=""`,
		head + "- key: a\n  value: !!null x\n  " + limit + "\n":                                            `a=""`,
		head + "- key: !!binary YQ==\n  value: !ours b\n  " + limit + "\n":                                 `a="b"`,
		"!!map\ndomain: ! shop\ndescriptors: !!seq\n- !!map\n  key: a\n  " + limit + "\n":                  `a=""`,
		"%YAML 1.1\n%TAG !y! tag:yaml.org,2002:\n---\n" + head + "- {key: !y!str a, " + limit + "}\n...\n": `a=""`,
		// values that mean nothing
		head + "- key: a\n  value:\n  descriptors: ~\n  metadata: null\n  " + limit + "\n": `a=""`,
		// truths
		head + "- {key: a, value: on, shadow_mode: Off, quota_mode: !!bool no, " + limit + "}": `a="on"`,
		// dates, versions and numbers as text
		head + "- {key: a, value: 2001-01-01, " + limit + "}":                  `a="2001-01-01"`,
		head + "- {key: a, value: 1.2.3, " + limit + "}":                       `a="1.2.3"`,
		head + "- {key: a, value: 12:30, " + limit + "}":                       `a="12:30"`,
		head + "- {key: a, value: 0o17, " + limit + "}":                        `a="0o17"`,
		head + "- {key: a, value: 10.0.0.0/8, " + limit + "}":                  `a="10.0.0.0/8"`,
		head + "- {key: a, value: ::1, " + limit + "}":                         `a="::1"`,
		head + "- key: a\n  rate_limit: {unit: minute, requests_per_unit: +2}": `a=""`,
		// forms of objects and lists
		head + "- ? key\n  : a\n  ? rate_limit\n  : unit: minute\n    requests_per_unit: 2\n":                                   `a=""`,
		head + "-   key: a\n    rate_limit:\n        unit: minute\n        requests_per_unit: 2\n":                              `a=""`,
		"descriptors:\n    -\n        " + limit + "\n        key: a\ndomain: shop\n":                                            `a=""`,
		`{"domain": "shop", "descriptors": [{"key": "a",` + "\n\t" + `"rate_limit": {"unit":"minute","requests_per_unit":2}}]}`: `a=""`,
		"{domain: shop, descriptors: [{key: a, " + limit + "},]}":                                                               `a=""`,
		"\ufeff" + strings.ReplaceAll(head, "\n", "\r\n") + "- key: a\r\n  " + limit + "\r\n":                                   `a=""`,
		strings.ReplaceAll(head+"- key: a\n  "+limit+"\n", "\n", "\r"):                                                          `a=""`,
		// anchors, aliases and merge keys
		"domain: shop\ndescriptors:\n- &a !!map\n  key: &k a\n  " + limit + "\n- <<: *a\n  value: *k\n": `a="" a="a"`,
		"domain: shop\ndescriptors:\n- {&k key: a, rate_limit: &r {unit: minute, requests_per_unit: 2}}\n" +
			"- {*k : b, rate_limit: {<<: [*r, {unit: day}], name: n}}\n": `a="" b=""`,
		// documents
		"# nothing\n---\n---\n...\n# no more\n...\n" + head + "- {key: a, " + limit + "}\n...\n# end\n---\n": `a=""`,
		head + "- {key: a, " + limit + "}\n...\ndomain: other\n":                                             `a=""`,
		head + "- {key: a, " + limit + "}\n...\n%YAML 1.1\n---\ndomain: other\n":                             `a=""`,
		"--- # the shop\n" + head + "- {key: a, value: '---', " + limit + "}":                                `a="---"`,
	} {
		in, err := Parse([]Source{{Data: []byte(text)}}, Options{})
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		var got []string
		for _, f := range in.rules {
			if e := f.rule.Descriptor.Entries[0]; f.rule.Limit != 2 || f.rule.WindowMS != 60_000 || f.rule.Mode == "shadow" {
				t.Errorf("%+v\n%s", f.rule, text)
			} else {
				got = append(got, fmt.Sprintf("%s=%q", e.Key, e.Value))
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
	}
}

func TestParse_KeepsMetadataAsText(t *testing.T) {
	for value, want := range map[string]string{
		"text": "text", `"5"`: "5", "|-\n      two\n      lines": "two\nlines", "''": "",
		"5": "5", "0x10": "16", "017": "15", "1_000": "1000", "1.50": "1.50", ".5": "0.5", ".inf": `".inf"`, "-.inf": `"-.inf"`,
		"true": "true", "NO": "NO", "!!bool NO": "false", "~": "null", "": "null", "2001-01-01": "2001-01-01",
		"{}": "{}", "[]": "[]", "[1, a, [~, TRUE], {b: <c>}]": `[1,"a",[null,true],{"b":"<c>"}]`,
		"\n      name: service_1\n      tiers: [gold, 2]": `{"name":"service_1","tiers":["gold",2]}`,
		"{z: &x {y: 1}, a: *x, 5: {<<: *x}}":              `{"z":{"y":1},"a":{"y":1},"5":{"y":1}}`,
	} {
		in := parse(t, descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 2}", "metadata:", "  k: "+value),
			Options{})
		rule := created(t, in)[0]
		if diff := cmp.Diff(map[string]string{"k": want}, rule.Metadata); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
		isText := len(in.Report) == 0
		if !isText && in.Report[0].String() != `line 6: metadata "k" is kept as its JSON text: `+want {
			t.Errorf("%q: the report is %v", value, in.Report)
		}
	}
	in := parse(t, descriptors("key: a", "rate_limit: {unit: minute, requests_per_unit: 2}", "metadata: {k: v, on: no}"),
		Options{})
	if len(in.Report) != 0 {
		t.Errorf("the report about texts: %v", in.Report)
	}
}

func TestParse_AllProblemsOfADocument(t *testing.T) {
	_, err := Parse([]Source{{Name: "a.yaml", Data: []byte("domain: shop\ndomain: shop\ndescriptors:\n- key: a\n" +
		"  key: b\n  value: !!int c\n  limit: 5\n- {[x]: y, key: '', rate_limit: {unit: eon, <<: 5}}\n")}}, Options{})
	var got []string
	for _, f := range problemsOf(t, err) {
		got = append(got, f.Field+" "+f.Message)
	}
	if diff := cmp.Diff([]string{
		`a.yaml:2 the member "domain" appears twice`,
		`a.yaml:5 the member "key" appears twice`,
		`a.yaml:6 "c" is not a value of the tag !!int`,
		`a.yaml:8 a key must be text`,
		`a.yaml:8 << needs an object or a list of objects`,
		`a.yaml:7 unknown key "limit"`,
		`a.yaml:8 descriptor has empty key`,
		`a.yaml:8 invalid rate limit unit "eon": it must be second, minute, hour, day, week, month or year`,
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse_NamesWhatIsNotAConfiguration(t *testing.T) {
	const of = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata:\n  shop.yaml: |\n    domain: shop\n"
	for text, want := range map[string]string{
		of: `this is a ConfigMap of Kubernetes, and each text in its data is a configuration: import those, for example with ` +
			`kubectl get configmap limits -o go-template='{{index .data "shop.yaml"}}' | sluice rules import-envoy -`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: $(x)}\ndata: {\"'\": a}": `get configmap NAME -o ` +
			`go-template='{{index .data "KEY"}}'`,
		"replicaCount: 2\nimage: {tag: a}\nconfig: {domain: shop}\n": `values of a Helm chart, of which only the chart's ` +
			`templates make a configuration: import what they make, for example with helm template RELEASE CHART -f VALUES`,
		"apiVersion: ratelimit.solo.io/v1alpha1\nkind: RateLimitConfig\nspec: {raw: {}}\n": `does not say in which domain`,
		"apiVersion: gloo.solo.io/v1\nkind: Settings\nspec: {}\n":                          `an object of Kubernetes ("Settings")`,
		"apiVersion: apps/v1\nkind: Deployment\n":                                          `this is an object of Kubernetes ("Deployment"), not a configuration`,
	} {
		_, err := Parse([]Source{{Data: []byte("# a chart\n" + text)}}, Options{})
		if problems := problemsOf(t, err); len(problems) != 1 || problems[0].Field != "line 2" ||
			!strings.Contains(problems[0].Message, want) {
			t.Errorf("%s\n%v", text, problems)
		}
	}
}
