package rulefile

import (
	"fmt"
	"sluice/rules"
	"strings"
	"testing"
)

// worded is a valid rule in normal form.
func worded(edit func(*rules.Rule)) *rules.Rule {
	r := &rules.Rule{Name: "charges", Scope: "user", Route: new("/v1/charges"), Method: new("POST"), Limit: 100,
		WindowMS: 60_000, IsActive: true}
	if edit != nil {
		edit(r)
	}
	r.Normalize()
	return r
}

func TestFormatDraft_ReadsBackWhenValid(t *testing.T) {
	r := worded(func(r *rules.Rule) { r.Throttle, r.SoftPercent = rules.ThrottleSoft, new(int64(20)) })
	f, err := Parse(FormatDraft(r))
	if err != nil || len(f.Rules) != 1 || len(rules.Diff(&f.Rules[0], r)) > 0 {
		t.Fatalf("%v: %+v", err, f.Rules)
	}
	if whole, err := Format(rules.File{Rules: []rules.Rule{*r}}); err != nil || string(whole) != string(FormatDraft(r)) {
		t.Errorf("a valid draft is written as\n%s(%v)", FormatDraft(r), err)
	}
	if got := string(FormatDraft(&rules.Rule{Scope: "user"})); got != "rules:\n  - name: \"\"\n    scope: user\n    "+
		"limit: 0\n    window_ms: 0\n    is_active: false\n" {
		t.Errorf("a rule without a name is written as\n%s", got)
	}
}

func TestFormat_NamesTheRuleThatItCannotWrite(t *testing.T) {
	good, bad := *worded(nil), *worded(func(r *rules.Rule) { r.Name, r.WindowMS = "spoilt", 0 })
	_, err := Format(rules.File{Rules: []rules.Rule{good, bad}})
	got := fieldErrors(t, err)
	if len(got) != 1 || !strings.HasPrefix(got[0], "rules[spoilt].window_ms: ") {
		t.Errorf("got %q, want the field under the rule's name", got)
	}
}

func TestFormat_KeepsTextThatLooksLikeABlock(t *testing.T) {
	var rs []rules.Rule
	for i, text := range []string{"a | #", "a > # b", "ends in |", "over << under", "# only", "-> x"} {
		for j := range 60 {
			rs = append(rs, *worded(func(r *rules.Rule) {
				r.Name, r.Description = fmt.Sprintf("rule-%d-%d", i, j), text
			}))
		}
	}
	text, err := Format(rules.File{Rules: rs})
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	if p := rules.MakePlan(rs, back, true); !p.Empty() {
		t.Errorf("came back changed:\n%s", p.String())
	}
}
