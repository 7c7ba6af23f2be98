package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/rules/rulestest"
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
			r := genFileRule(int64(i+1)).Draw(t, "rule")
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

func TestDiff_ValuesAreThoseOfTheJSONForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rulestest.Generate(1).Draw(t, "rule")
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		for _, f := range rules.Fields() {
			got, want := f.Value(&r), m[f.Name]
			if n, ok := got.(int64); ok {
				got = float64(n)
			}
			if got != want {
				t.Fatalf("%s: got %v, want %v", f.Name, got, want)
			}
		}
	})
}

// genFileRule draws rules with every field that a file can carry.
func genFileRule(id int64) *rapid.Generator[rules.Rule] {
	text := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune(`aZ0 :#'"{}[],&*!|>%@\-?~é🙂`)), 0, 20, 60),
		rapid.SampledFrom([]string{"true", "null", "~", "- a", "a: b", "1", "1e3", "0x1", "yes", "#x", "x #y", "'", `"`, "a:",
			"=", "<<"}),
	)
	return rapid.Custom(func(t *rapid.T) rules.Rule {
		r := rulestest.Generate(id).Draw(t, "rule")
		r.Description = text.Draw(t, "description")
		r.Owner = rapid.Ptr(text, true).Draw(t, "owner")
		if rapid.Bool().Draw(t, "odd name") {
			r.Name = rapid.SampledFrom([]string{"true", "null", "1", "0x1f", "1e3", "no", "1.5", "2026-11-21", "a-", "0b1",
				"1_000"}).Draw(t, "name")
		}
		if rapid.Bool().Draw(t, "odd route") {
			r.Route = new("/" + strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-zé: #,&!|>'"@~=-]{1,5}[a-z]`), 1, 3).Draw(t,
				"route"), "/"))
		}
		if r.Algorithm == "fixed_window" {
			r.Align = rapid.Ptr(rapid.SampledFrom([]string{"calendar"}), true).Draw(t, "align")
			r.AnchorMS = rapid.Ptr(rapid.Int64Range(-1000, 1000), true).Draw(t, "anchor")
		}
		if r.Algorithm == "gcra" {
			r.Burst = rapid.Ptr(rapid.Int64Range(0, 1000), true).Draw(t, "burst")
		}
		r.Mode = rapid.SampledFrom([]string{rules.ModeEnforce, rules.ModeShadow}).Draw(t, "mode")
		r.FailMode = rapid.SampledFrom([]string{rules.FailOpen, rules.FailClosed, rules.FailLocal}).Draw(t, "fail mode")
		r.Normalize()
		return r
	})
}
