package rulefile

import (
	"errors"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/field"

	"github.com/google/go-cmp/cmp"
)

// fieldErrors returns the field errors of err as "field: message" lines.
func fieldErrors(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var ve *field.ValidationError
	if !errors.As(err, &ve) {
		t.Fatalf("got %T (%v), want a *ValidationError", err, err)
	}
	var out []string
	for _, f := range ve.Fields {
		out = append(out, f.Field+": "+f.Message)
	}
	return out
}

const sampleYAML = `# limits of the public API
---
rules:
- name: charges-per-user   # five a second
  "scope": 'user'
  route: /v1/charges
  method: post
  limit: 5
  window_ms: 1000
- {name: tenant, scope: "attr:tenant+ip", route: "/v1/users/{id}/*", algorithm: gcra,
   limit: 100, window_ms: 60000, burst: 200, is_active: false}
-
  name: login
  scope: ip
  description: "Slow down
    guessing"
  route: ~
  method:
  algorithm: fixed_window
  align: first_hit
  limit: 10
  window_ms: 60000
  mode: shadow
  fail_mode: closed
`

func sampleRules() []rules.Rule {
	rs := []rules.Rule{
		{Name: "charges-per-user", Scope: "user", Route: new("/v1/charges"), Method: new("POST"), Limit: 5, WindowMS: 1000,
			IsActive: true},
		{Name: "tenant", Scope: "attr:tenant+ip", Route: new("/v1/users/{id}/*"), Algorithm: "gcra", Limit: 100,
			WindowMS: 60000, Burst: new(int64(200))},
		{Name: "login", Scope: "ip", Description: "Slow down guessing", Algorithm: "fixed_window", Align: new("first_hit"),
			Limit: 10, WindowMS: 60000, Mode: "shadow", FailMode: "closed", IsActive: true},
	}
	for i := range rs {
		rs[i].Normalize()
	}
	return rs
}

// parseRules is ParseFile for files that are about rules only.
func parseRules(data []byte) ([]rules.Rule, error) {
	f, err := Parse(data)
	return f.Rules, err
}

func TestParse_ReadsEveryYAMLStyle(t *testing.T) {
	got, err := parseRules([]byte(sampleYAML))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sampleRules(), got); d != "" {
		t.Error(d)
	}
}

func TestParse_ReadsJSONWithTabsAndIgnoresIdentity(t *testing.T) {
	got, err := parseRules([]byte("\ufeff\n{\"rules\": [\n\t{\"id\": 9, \"version\": 3, \"created_at\": " +
		"\"2026-01-01T00:00:00Z\", \"name\": \"a\", \"scope\": \"global\", \"route\": null,\n\t\"limit\": 1, " +
		"\"window_ms\": 1000, \"burst\": null}]}"))
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Rule{Name: "a", Scope: "global", Limit: 1, WindowMS: 1000, IsActive: true}
	want.Normalize()
	if d := cmp.Diff([]rules.Rule{want}, got); d != "" {
		t.Error(d)
	}
}

// A null is "not given", as in POST /ratelimit/rules and /ratelimit/pools.
func TestParse_TakesNullForNotGiven(t *testing.T) {
	f, err := Parse([]byte(`{"rules": [{"name": "a", "scope": "global", "limit": 1, "window_ms": null, "calendar": {"every": "month"},
		"description": null, "algorithm": "fixed_window", "throttle": null, "charge_on": null, "over_limit": null,
		"hot_keys": null,
		"mode": null, "fail_mode": null, "is_active": null, "tiers": null, "schedule": null, "defer": null,
		"candidate": null, "when": null}],
		"pools": [{"name": "p", "description": null, "limit": 5, "window_ms": 1000, "normal_percent": null, "low_percent": null}]}`))
	if err != nil {
		t.Fatal(err)
	}
	given, err := Parse([]byte(`{"rules": [{"name": "a", "scope": "global", "limit": 1, "calendar": {"every": "month"}, "algorithm": "fixed_window"}],
		"pools": [{"name": "p", "limit": 5, "window_ms": 1000}]}`))
	if d := cmp.Diff(given, f); d != "" || err != nil {
		t.Errorf("%v (-left out +null):\n%s", err, d)
	}
	for _, missing := range []string{`"name": null, "scope": "global", "limit": 1`,
		`"name": "a", "scope": null, "limit": 1`, `"name": "a", "scope": "global", "limit": null`} {
		if _, err := Parse([]byte(`{"rules": [{"window_ms": 1000, ` + missing + `}]}`)); err == nil {
			t.Errorf("%s passes", missing)
		}
	}
}

func TestParse_EmptyListIsLegal(t *testing.T) {
	for _, in := range []string{"rules: []", `{"rules": []}`} {
		if got, err := parseRules([]byte(in)); err != nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", in, got, err)
		}
	}
}

func TestParse_NamesEveryMistakeWithItsLine(t *testing.T) {
	_, err := Parse([]byte(`rules:
- name: Bad Name
  scope: usr
  limit: "5"
  window_ms: 1.5
- name: twice
  scope: user
  limit: 1
  window_ms: 0
  colour: red
- name: twice
  scope: user
  limit: 99999999999999999999
  window_ms: 1000
  is_active: yes
- just text
extra: 1
`))
	got := fieldErrors(t, err)
	want := []string{
		"extra: is not a known member; use rules, pools and profiles (line 17)",
		"rules[0].limit: must be a whole number, not text (line 4)",
		"rules[0].window_ms: must be a whole number, not a number (line 5)",
		"rules[0].name: must be 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit (line 2)",
		"rules[0].scope: must be global, or a sum such as user+ip of distinct facts among ip, user, apikey, tier, host, " +
			"route, method and attr:<name> (line 3)",
		"rules[1].colour: is not a field of a rule (line 10)",
		"rules[1].window_ms: must be between 1 and 315576000000 (ten years) (line 9)",
		"rules[2].limit: is out of range (line 13)",
		"rules[2].is_active: must be true or false, not text (line 15)",
		"rules[2].name: is already used by rules[1] (line 11)",
		"rules[3]: must be an object, not text (line 16)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParse_RefusesWhatHasNotTheFormOfAFile(t *testing.T) {
	rule := "name: a\n  scope: user\n  limit: 1\n  window_ms: 1\n"
	for name, c := range map[string]struct{ in, want string }{
		"empty":           {"", "line 1:1: is empty"},
		"only a comment":  {"# nothing\n", "line 1:1: is empty"},
		"not utf-8":       {"rules: \xff", "file: must be valid UTF-8"},
		"a list":          {"- " + rule, "file: must be an object with the member rules, not a list"},
		"no list":         {"rules:\n", "rules: must be a list of rules, [] for none, not nothing (line 1)"},
		"missing":         {"{}", "rules: is missing"},
		"repeated member": {"rules:\n- name: a\n  name: b\n", `line 3:3: the member "name" appears twice`},
		"no blank": {"rules:\n- metadata: {team:core, a: b}\n", `line 2:14: the member "team:core" has no value; ` +
			"write a blank after the colon, and text with a comma in quotes"},
		"comma": {"rules:\n- {name: a, limit: 1,000}\n", `line 2:22: the member "000" has no value; ` +
			"write a blank after the colon, and text with a comma in quotes"},
		"repeated in json": {`{"rules": [], "rules": []}`, `line 1:22: the member "rules" appears twice`},
		"anchor":           {"rules: &a []\n", "line 1:8: anchors, aliases and merge keys are not supported in rules files"},
		"alias":            {"rules: *a\n", "line 1:8: cannot be read as YAML: unknown anchor 'a' referenced"},
		"tag":              {"rules: !!set []\n", "line 1:8: tags are not supported in rules files"},
		"two documents":    {"rules: []\n---\nrules: []\n", "line 2:1: a second document begins here; a rules file has one"},
		"open bracket": {"rules: [1, 2\n", "line 1:8: cannot be read as YAML: did not find expected ',' or ']', " +
			"while parsing a flow sequence"},
		"tab": {"rules:\n\t- a\n", "line 2:1: the line is indented with a tab, which YAML does not allow: " +
			"replace each tab by spaces"},
		"nested colons": {"rules: a: b\n", "line 1:9: cannot be read as YAML: mapping values " +
			"are not allowed in this context"},
		"bad dedent": {"rules:\n    - a\n  b: 1\n", "line 3:3: cannot be read as YAML: did not find expected key, " +
			"while parsing a block mapping that begins 2 lines before"},
		"half a pair":   {`{"rules": [{"name": "\\\ud800"}]}`, "line 1:31: has half of a surrogate pair in a text"},
		"half a name":   {`{"\udc00\ud800": 1}`, "line 1:16: has half of a surrogate pair in a text"},
		"json":          {`{"rules": [01]}`, "line 1:13: is not valid JSON: invalid character '1' after array element"},
		"trailing json": {`{"rules": []} x`, "line 1:15: has more data after the end of the JSON value"},
		"cut json":      {`{"rules": [`, "line 1:12: ends in the middle of the JSON value"},
		"deep":          {"rules: " + strings.Repeat("[", 200_000), "line 1:24: is nested more than 16 deep"},
		"deep json":     {`{"rules": ` + strings.Repeat("[", 200_000), "line 1:27: is nested too deeply"},
		"deep dashes":   {"rules:\n" + strings.Repeat("- ", 100_000), "line 2:35: is nested more than 16 deep"},
		"many merges":   {strings.Repeat("<<", 500_000), "file: must be an object with the member rules, not text"},
		"merge":         {"rules:\n- <<: {}\n", "line 2:3: anchors, aliases and merge keys are not supported in rules files"},
		"many at signs": {strings.Repeat("@", 500_000), "line 1:1: cannot be read as YAML: found character " +
			"that cannot start any token, while scanning for the next token"},
		"too many parts": {"rules: [" + strings.Repeat(",", 700_000), "line 1:1: has too many parts; split the file"},
		"too many quotes": {"rules: " + strings.Repeat(`"`, 500_000), "line 1:10: cannot be read as YAML: did not find expected key, " +
			"while parsing a block mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.in))
			got := fieldErrors(t, err)
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParse_BoundsTheErrorsItLists(t *testing.T) {
	_, err := Parse([]byte("rules:\n" + strings.Repeat("- 1\n", 5000)))
	if n := len(fieldErrors(t, err)); n != rules.MaxFileErrors+1 {
		t.Errorf("got %d errors, want %d", n, rules.MaxFileErrors+1)
	}
}

func TestFormat_OmitsDefaultsAndSortsByName(t *testing.T) {
	got, err := Format(rules.File{Rules: sampleRules()})
	if err != nil {
		t.Fatal(err)
	}
	want := `rules:
  - name: charges-per-user
    scope: user
    route: /v1/charges
    method: POST
    limit: 5
    window_ms: 1000
  - name: login
    description: "Slow down guessing"
    scope: ip
    algorithm: fixed_window
    limit: 10
    window_ms: 60000
    align: first_hit
    mode: shadow
    fail_mode: closed
  - name: tenant
    scope: attr:tenant+ip
    route: /v1/users/{id}/*
    algorithm: gcra
    limit: 100
    window_ms: 60000
    burst: 200
    is_active: false
`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestFormat_RefusesWhatParseFileWould(t *testing.T) {
	if _, err := Format(rules.File{Rules: []rules.Rule{{Name: "No"}}}); err == nil {
		t.Error("got no error")
	}
}
