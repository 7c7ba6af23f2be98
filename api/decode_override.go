package api

import (
	"strconv"
	"time"

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
	in := ruleInput{}
	if id == 0 && v.member("key") == nil {
		in.wrong("key", "is required")
	}
	for i, name := range v.names {
		m := &v.members[i]
		switch name {
		case "key":
			in.overrideText(name, m, &o.Key)
		case "reason":
			in.overrideText(name, m, &o.Reason)
		case "limit":
			in.optionalInteger(name, m, &o.Limit)
		case "burst":
			in.optionalInteger(name, m, &o.Burst)
		case "unlimited":
			in.flag(name, m, &o.Unlimited)
		case "blocked":
			in.flag(name, m, &o.Blocked)
		case "expires_at":
			in.overrideEnd(name, m, &o.ExpiresAt)
		case "id", "rule_id":
			in.sameID(name, m, map[string]int64{"id": id, "rule_id": rule}[name])
		case "version", "created_at", "updated_at":
		default:
			return o, &malformedError{message: "unknown member " + strconv.Quote(clip(name))}
		}
	}
	if len(in.errs) > 0 {
		return o, &rules.ValidationError{Fields: in.errs}
	}
	return o, nil
}

// overrideText reads a string; null is none.
func (in *ruleInput) overrideText(field string, v *jsonValue, dst *string) {
	switch {
	case v.kind == jsonNull && field != "key":
		*dst = ""
	case v.kind != jsonString:
		in.wrong(field, "must be a string")
	case v.text == "" && field == "key":
		in.wrong(field, "must not be empty")
	default:
		*dst = v.text
	}
}

// flag reads a truth that is false unless given.
func (in *ruleInput) flag(field string, v *jsonValue, dst *bool) {
	switch v.kind {
	case jsonBool:
		*dst = v.truth
	case jsonNull:
		*dst = false
	default:
		in.wrong(field, "must be true or false")
	}
}

func (in *ruleInput) overrideEnd(field string, v *jsonValue, dst **time.Time) {
	if v.kind == jsonNull {
		*dst = nil
		return
	}
	at, err := time.Parse(time.RFC3339, v.text)
	if v.kind != jsonString || err != nil {
		in.wrong(field, "must be null or a time such as 2026-12-31T00:00:00Z")
		return
	}
	*dst = &at
}

// sameID holds an id in the body to the one in the path; 0 takes any.
func (in *ruleInput) sameID(field string, v *jsonValue, want int64) {
	if want != 0 && v.text != strconv.FormatInt(want, 10) {
		in.wrong(field, "must be %d as in the path, or left out", want)
	}
}
