package api

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules"
)

// ruleInput puts the members of a JSON object into a rule and collects what is
// wrong with them.
type ruleInput struct {
	rule *rules.Rule
	errs []rules.FieldError
}

// ruleMembers sets one member of a rule each. Null means "not given".
var ruleMembers = map[string]func(in *ruleInput, field string, v *jsonValue){
	"name":              func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Name) },
	"description":       func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Description) },
	"scope":             func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Scope) },
	"route":             func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.Route) },
	"method":            func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.Method) },
	"algorithm":         func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Algorithm) },
	"limit":             func(in *ruleInput, f string, v *jsonValue) { in.requiredInteger(f, v, &in.rule.Limit) },
	"window_ms":         (*ruleInput).window,
	"burst":             func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.Burst) },
	"align":             func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.Align) },
	"anchor_ms":         func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.AnchorMS) },
	"buckets":           func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.Buckets) },
	"weight_field":      func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.WeightField) },
	"throttle":          func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Throttle) },
	"soft_percent":      func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.SoftPercent) },
	"elastic_percent":   func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.ElasticPercent) },
	"pool":              func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.Pool) },
	"priority":          func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.Priority) },
	"tiers":             (*ruleInput).composite,
	"schedule":          (*ruleInput).composite,
	"calendar":          (*ruleInput).composite,
	"active_from":       func(in *ruleInput, f string, v *jsonValue) { in.optionalInstant(f, v, &in.rule.ActiveFrom) },
	"active_until":      func(in *ruleInput, f string, v *jsonValue) { in.optionalInstant(f, v, &in.rule.ActiveUntil) },
	"when":              func(in *ruleInput, f string, v *jsonValue) { in.optionalText(f, v, &in.rule.When) },
	"charge_on":         func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.ChargeOn) },
	"over_limit":        func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.OverLimit) },
	"defer":             (*ruleInput).composite,
	"candidate":         (*ruleInput).composite,
	"retry_jitter_ms":   func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.RetryJitterMS) },
	"hot_keys":          func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.HotKeys) },
	"hot_raise_percent": func(in *ruleInput, f string, v *jsonValue) { in.optionalInteger(f, v, &in.rule.HotRaisePercent) },
	"mode":              func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.Mode) },
	"fail_mode":         func(in *ruleInput, f string, v *jsonValue) { in.text(f, v, &in.rule.FailMode) },
	"is_active":         func(in *ruleInput, f string, v *jsonValue) { in.truth(f, v, &in.rule.IsActive) },
}

// readOnlyMembers are given by the service. A whole rule may bring them back as
// they were read; a patch must not.
var readOnlyMembers = map[string]bool{"id": true, "version": true, "created_at": true, "updated_at": true}

// decodeRule reads a whole rule, for POST and PUT. id is the rule's, 0 for a new
// one. The rule comes back normalised and valid.
func decodeRule(body []byte, id int64) (rules.Rule, error) {
	v, err := parseJSON(body)
	if err != nil {
		return rules.Rule{}, err
	}
	r := rules.Rule{IsActive: true}
	in := ruleInput{rule: &r}
	for _, name := range []string{"name", "scope", "limit", "window_ms"} {
		if v.member(name) == nil && (name != "window_ms" || !hasCalendar(v)) {
			in.wrong(name, "is required")
		}
	}
	if err := in.members(v); err != nil {
		return r, err
	}
	if m := v.member("id"); m != nil && id != 0 && m.text != strconv.FormatInt(id, 10) {
		in.wrong("id", "must be %d as in the path, or left out", id)
	}
	r.ID = id
	return r, in.finish()
}

// decodePatch applies a JSON merge patch (RFC 7396) to a rule: null takes a
// member back to its default.
func decodePatch(body []byte, r *rules.Rule) error {
	v, err := parseJSON(body)
	if err != nil {
		return err
	}
	in := ruleInput{rule: r}
	for _, name := range v.names {
		if readOnlyMembers[name] {
			in.wrong(name, "cannot be changed")
		}
	}
	if err := in.members(v); err != nil {
		return err
	}
	return in.finish()
}

// members reads every member; an unknown one makes the body malformed.
func (in *ruleInput) members(v *jsonValue) error {
	for i, name := range v.names {
		set := ruleMembers[name]
		switch {
		case set != nil:
			set(in, name, &v.members[i])
		case !readOnlyMembers[name]:
			return &malformedError{message: "unknown member " + strconv.Quote(clip(name))}
		}
	}
	return nil
}

// finish validates the rule and adds what is wrong to what was wrong already,
// one complaint a field.
func (in *ruleInput) finish() error {
	in.rule.Normalize()
	return in.complete(rules.Validate(in.rule))
}

// complete adds what validation says to what was wrong already.
func (in *ruleInput) complete(err error) error {
	if ve, ok := err.(*rules.ValidationError); ok { //nolint:errorlint // validation promises exactly this type
		seen := map[string]bool{}
		for _, f := range in.errs {
			seen[topField(f.Field)] = true
		}
		for _, f := range ve.Fields {
			if !seen[topField(f.Field)] {
				in.errs = append(in.errs, f)
			}
		}
	}
	if len(in.errs) > 0 {
		return &rules.ValidationError{Fields: in.errs}
	}
	return nil
}

func (in *ruleInput) wrong(field, format string, args ...any) {
	in.errs = append(in.errs, rules.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// text reads a string; null makes it "", which Normalize turns into the default.
func (in *ruleInput) text(field string, v *jsonValue, dst *string) {
	switch v.kind {
	case jsonString:
		*dst = v.text
		if field != "description" {
			in.plain(field, v.text)
		}
	case jsonNull:
		*dst = ""
	default:
		in.wrong(field, "must be a string")
	}
}

// plain refuses what Normalize would silently turn into something else: an
// empty route, say, would become every route.
func (in *ruleInput) plain(field, text string) {
	switch {
	case text == "" && (field == "name" || field == "scope"):
		in.wrong(field, "must not be empty")
	case text == "":
		in.wrong(field, "must not be empty; leave it out for the default")
	case strings.TrimSpace(text) != text:
		in.wrong(field, "must not begin or end with blanks")
	}
}

func (in *ruleInput) optionalText(field string, v *jsonValue, dst **string) {
	switch v.kind {
	case jsonString:
		*dst = &v.text
		in.plain(field, v.text)
	case jsonNull:
		*dst = nil
	default:
		in.wrong(field, "must be a string or null")
	}
}

func (in *ruleInput) truth(field string, v *jsonValue, dst *bool) {
	switch v.kind {
	case jsonBool:
		*dst = v.truth
	case jsonNull:
		*dst = true
	default:
		in.wrong(field, "must be true or false")
	}
}

func (in *ruleInput) requiredInteger(field string, v *jsonValue, dst *int64) {
	if v.kind == jsonNull {
		in.wrong(field, "is required")
		return
	}
	in.integer(field, v, dst)
}

func (in *ruleInput) optionalInteger(field string, v *jsonValue, dst **int64) {
	if v.kind == jsonNull {
		*dst = nil
		return
	}
	var n int64
	in.integer(field, v, &n)
	*dst = &n
}

func (in *ruleInput) integer(field string, v *jsonValue, dst *int64) {
	if v.kind != jsonNumber {
		in.wrong(field, "must be an integer")
		return
	}
	n, kind := parseInteger([]byte(v.text))
	switch kind {
	case notInteger:
		in.wrong(field, "must be an integer, written without a decimal point or exponent")
	case outOfRange:
		least := int64(0)
		if field == "anchor_ms" {
			least = -limiter.MaxExact
		}
		in.wrong(field, "must be between %d and %d", least, limiter.MaxExact)
	default:
		*dst = n
	}
}
