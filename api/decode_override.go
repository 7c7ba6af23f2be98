package api

import (
	"sluice/rules"
	"sluice/rules/tree"
)

// decodeOverride reads an override of a rule, for POST (id 0) and PUT. Read-only
// members (id, rule_id, version, times) are allowed and ignored, but ids must match the
// path. rules.Override.Resolve validates key, limit and expiry.
func decodeOverride(body []byte, rule, id int64) (rules.Override, error) {
	v, err := parseJSON(body)
	if err != nil {
		return rules.Override{}, err
	}
	o := rules.Override{RuleID: rule, ID: id}
	var in input
	if id == 0 {
		requireMembers(&in, v, &o, rules.OverrideFields())
	}
	if m := v.Member("key"); m != nil && m.Kind == tree.Null {
		in.wrong("key", "must be a string")
	}
	in.requireID("id", v, id)
	in.requireID("rule_id", v, rule)
	if err := decodeMembers(&in, v, &o, rules.OverrideFields(), "id", "rule_id"); err != nil {
		return o, err
	}
	return o, in.err()
}
