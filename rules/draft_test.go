package rules

import "testing"

func TestFormatDraft_ReadsBackWhenValid(t *testing.T) {
	r := worded(func(r *Rule) { r.Throttle, r.SoftPercent = ThrottleSoft, new(int64(20)) })
	f, err := ParseFile(FormatDraft(r))
	if err != nil || len(f.Rules) != 1 || len(Diff(&f.Rules[0], r)) > 0 {
		t.Fatalf("%v: %+v", err, f.Rules)
	}
	if whole, err := FormatFile(File{Rules: []Rule{*r}}); err != nil || string(whole) != string(FormatDraft(r)) {
		t.Errorf("a valid draft is written as\n%s(%v)", FormatDraft(r), err)
	}
	if got := string(FormatDraft(&Rule{Scope: "user"})); got != "rules:\n  - name: \"\"\n    scope: user\n    limit: 0\n    window_ms: 0\n    is_active: false\n" {
		t.Errorf("a rule without a name is written as\n%s", got)
	}
}
