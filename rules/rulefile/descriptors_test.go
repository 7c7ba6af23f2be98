package rulefile

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
)

const descriptorsYAML = `rules:
  - name: pay
    descriptor: {domain: shop, entries: [{key: path, pattern: "/pay/*", shared: true}, {key: user}]}
    algorithm: fixed_window
    limit: 5
    window_ms: 60000
    addend: charge
    quota: true
    replaces:
      - all
      - other
    metadata: {team: payments}
  - name: root
    descriptor: {domain: shop, entries: [{key: user, value: root}]}
    window_ms: 1000
    unlimited: true
  - name: shared
    descriptor: {domain: shop, entries: [{key: path, pattern: "*"}]}
    limit: 0
    window_ms: 1000
    share_threshold: true
`

func TestParse_ReadsDescriptorsAndFormatWritesThem(t *testing.T) {
	f, err := Parse([]byte(descriptorsYAML))
	if err != nil {
		t.Fatal(err)
	}
	want := rules.Rule{
		Name: "pay", Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{
			{Key: "path", Pattern: "/pay/*", Shared: true}, {Key: "user"}}},
		Algorithm: "fixed_window", Limit: 5, WindowMS: 60_000, Addend: rules.AddendCharge, Quota: true,
		Replaces: []string{"all", "other"}, Metadata: map[string]string{"team": "payments"}, IsActive: true,
	}
	want.Normalize()
	if diff := cmp.Diff(want, f.Rules[0]); diff != "" {
		t.Error(diff)
	}
	if root := f.Rules[1]; !root.Unlimited || root.Limit != 0 || root.Scope != "" {
		t.Errorf("got %+v", root)
	}
	text, err := Format(f)
	if diff := cmp.Diff(descriptorsYAML, string(text)); err != nil || diff != "" {
		t.Errorf("written: %v\n%s", err, diff)
	}
	again, err := Parse([]byte(`{"rules":` + field.JSONText(f.Rules) + `}`))
	if diff := cmp.Diff(f, again, cmpopts.IgnoreFields(rules.Rule{}, "FailFrom")); diff != "" || err != nil {
		t.Errorf("as JSON: %v\n%s", err, diff)
	}
	if plan := rules.MakeFilePlan(f, again, true); !plan.Empty() {
		t.Errorf("the file differs from itself: %s", &plan)
	}
}

func TestParse_TwoActiveRulesOfADescriptor(t *testing.T) {
	twice := descriptorsYAML + `  - name: again
    descriptor: {domain: shop, entries: [{key: user, value: root}]}
    limit: 1
    window_ms: 1000
`
	_, err := Parse([]byte(twice))
	var ve *field.ValidationError
	if !errors.As(err, &ve) || len(ve.Fields) != 1 || ve.Fields[0].Field != "rules[3].descriptor" ||
		!strings.Contains(ve.Fields[0].Message, "the active rules root and again") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse([]byte(twice + "    is_active: false\n")); err != nil {
		t.Errorf("a rule that is off: %v", err)
	}
}
