package rulefile

import (
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/tree"
)

// What a text without quotes means is the same in every version, so files that people keep stay valid.
func TestReadYAML_KindsOfPlainTexts(t *testing.T) {
	for kind, texts := range map[tree.Kind][]string{
		tree.Null:  {"", "~", "null", "Null", "NULL"},
		tree.Truth: {"true", "True", "TRUE", "false", "False", "FALSE"},
		tree.Whole: {"0", "5", "-5", "+5", "-0", "08", "1_000", "1__0", "+-5", "18446744073709551615",
			"99999999999999999999", "-9223372036854775809"},
		tree.Number: {"010", "-010", "0o17", "0x1f", "0x1F", "-0x1f", "0b11", "1.5", "1.", ".5", "-.5", "+.5", "1.5e3",
			"1_0.5", "0.5", "0_1", ".inf", ".Inf", ".INF", "-.inf", ".nan", ".NaN"},
		tree.Text: {"yes", "no", "on", "off", "y", "n", "tRue", "nULL", "0X1f", "0O17", "1e3", "_1", "-+5", "+.inf", "inf",
			"nan", ".nAn", "1.2.3", "10.0.0.0/8", "12:30", "2026-11-27", "2026-11-27T00:00:00Z", "+99999999999999999999",
			"18446744073709551616_", "0xfffffffffffffffff", "1.0e999", "+", "a", "5 a", "=",
			`"5"`, "'5'", `"true"`, "'~'", `""`, "|-\n  5", ">-\n  true"},
	} {
		for _, text := range texts {
			v, err := readYAML([]byte("a: " + text + "\n"))
			if err != nil || v.Members[0].Value.Kind != kind {
				t.Errorf("%q: %+v %v, want %s", text, v, err, kind)
			}
		}
	}
}

// A block text keeps its lines, also in an element of a long file.
func TestParse_ReadsBlockTexts(t *testing.T) {
	elements := ""
	for _, name := range []string{"first", "second"} {
		elements += "  - name: " + name + "\n    when: |\n      method == \"GET\" ||\n\n        method == \"PUT\"\n" +
			"    description: >-\n      - of two\n      # lines\n    scope: user\n    limit: 1\n    window_ms: 1000\n"
	}
	filling := strings.Repeat("# "+strings.Repeat("filling ", 128)+"\n", maxWhole>>10)
	for name, text := range map[string]string{"short": "rules:\n" + elements, "long": "rules:\n" + filling + elements} {
		rs, err := parseRules([]byte(text))
		if err != nil || len(rs) != 2 {
			t.Fatalf("%s: %.500v", name, err)
		}
		if rs[1].Description != "- of two # lines" || !strings.Contains(*rs[1].When, "||\n\n  method") {
			t.Errorf("%s: %q %q", name, rs[1].Description, *rs[1].When)
		}
	}
}

// YAML does not allow every character that a text can have.
func TestFormat_EscapesWhatYAMLDoesNotAllow(t *testing.T) {
	r := worded(func(r *rules.Rule) { r.Description = "a\ufffeb\uffffc\ufeff" })
	text, err := Format(rules.File{Rules: []rules.Rule{*r}})
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseRules(text)
	if err != nil || back[0].Description != r.Description {
		t.Errorf("%v\n%s", err, text)
	}
}
