package rules_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/rulefile"
)

func parseRules(data []byte) ([]rules.Rule, error) {
	f, err := rulefile.Parse(data)
	return f.Rules, err
}

func TestFormat_ParseReadsItBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []rules.Rule
		names := map[string]bool{}
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			r := rules.GenFileRule(int64(i+1)).Draw(t, "rule")
			if !names[r.Name] && rules.Validate(&r) == nil {
				names[r.Name] = true
				rs = append(rs, r)
			}
		}
		text, err := rulefile.Format(rules.File{Rules: rs})
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseRules(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if p := rules.MakePlan(rs, back, true); !p.Empty() || len(back) != len(rs) {
			t.Fatalf("came back changed:\n%s\n%s", p.String(), text)
		}
		asJSON, err := json.Marshal(map[string]any{"rules": append([]rules.Rule{}, rs...)})
		if err != nil {
			t.Fatal(err)
		}
		if back, err = parseRules(asJSON); err != nil {
			t.Fatalf("%v\n%s", err, asJSON)
		}
		if p := rules.MakePlan(rs, back, true); !p.Empty() {
			t.Fatalf("came back from JSON changed:\n%s", p.String())
		}
	})
}
