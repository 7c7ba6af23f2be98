package api

import (
	"strconv"

	"sluice/rules"
)

// decodeOverride reads an override of a rule, for POST (id 0) and PUT. What the
// service gives (id, rule_id, version, times) may be brought back as it was
// read. Key, limit and expiry are judged by rules.Override.Resolve.
func decodeOverride(body []byte, rule, id int64) (rules.Override, error) {
	v, err := parseJSON(body)
	if err != nil {
		return rules.Override{}, err
	}
	o := rules.Override{RuleID: rule, ID: id}
	var in input
	if id == 0 {
		requireMembers(&in, v, rules.OverrideFields())
	}
	if err := decodeMembers(&in, v, &o, rules.OverrideFieldNamed, "id", "rule_id"); err != nil {
		return o, err
	}
	for name, want := range map[string]int64{"id": id, "rule_id": rule} {
		if m := v.Member(name); m != nil && want != 0 && m.Text != strconv.FormatInt(want, 10) {
			in.wrong(name, "must be %d as in the path, or left out", want)
		}
	}
	return o, in.err()
}
