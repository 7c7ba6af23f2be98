package rules

import "reflect"

// field is one field of a rule that people edit.
type field struct {
	name string
	get  func(*Rule) any // what encoding/json makes the JSON value of; nil for null
}

// fields are in the order of the JSON form. Identity, version and times are not
// among them.
var fields = []field{
	{"name", func(r *Rule) any { return r.Name }},
	{"description", func(r *Rule) any { return r.Description }},
	{"scope", func(r *Rule) any { return r.Scope }},
	{"route", func(r *Rule) any { return jsonValue(r.Route) }},
	{"method", func(r *Rule) any { return jsonValue(r.Method) }},
	{"algorithm", func(r *Rule) any { return r.Algorithm }},
	{"limit", func(r *Rule) any { return r.Limit }},
	{"window_ms", func(r *Rule) any { return r.WindowMS }},
	{"burst", func(r *Rule) any { return jsonValue(r.Burst) }},
	{"align", func(r *Rule) any { return jsonValue(r.Align) }},
	{"anchor_ms", func(r *Rule) any { return jsonValue(r.AnchorMS) }},
	{"buckets", func(r *Rule) any { return jsonValue(r.Buckets) }},
	{"weight_field", func(r *Rule) any { return jsonValue(r.WeightField) }},
	{"throttle", func(r *Rule) any { return r.Throttle }},
	{"soft_percent", func(r *Rule) any { return jsonValue(r.SoftPercent) }},
	{"elastic_percent", func(r *Rule) any { return jsonValue(r.ElasticPercent) }},
	{"pool", func(r *Rule) any { return jsonValue(r.Pool) }},
	{"priority", func(r *Rule) any { return jsonValue(r.Priority) }},
	{"tiers", func(r *Rule) any {
		if len(r.Tiers) == 0 {
			return nil
		}
		return r.Tiers
	}},
	{"schedule", func(r *Rule) any { return jsonValue(r.Schedule) }},
	{"calendar", func(r *Rule) any { return jsonValue(r.Calendar) }},
	{"active_from", func(r *Rule) any { return formatInstant(r.ActiveFrom) }},
	{"active_until", func(r *Rule) any { return formatInstant(r.ActiveUntil) }},
	{"when", func(r *Rule) any { return jsonValue(r.When) }},
	{"charge_on", func(r *Rule) any { return r.ChargeOn }},
	{"over_limit", func(r *Rule) any { return r.OverLimit }},
	{"defer", func(r *Rule) any { return jsonValue(r.Defer) }},
	{"candidate", func(r *Rule) any { return jsonValue(r.Candidate) }},
	{"retry_jitter_ms", func(r *Rule) any { return jsonValue(r.RetryJitterMS) }},
	{"hot_keys", func(r *Rule) any { return r.HotKeys }},
	{"hot_raise_percent", func(r *Rule) any { return jsonValue(r.HotRaisePercent) }},
	{"mode", func(r *Rule) any { return r.Mode }},
	{"fail_mode", func(r *Rule) any { return r.FailMode }},
	{"is_active", func(r *Rule) any { return r.IsActive }},
}

func jsonValue[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// Diff lists the fields in which two rules differ, in the order of the JSON
// form. Id, version and times do not count. A nil rule has null in every field,
// so Diff(nil, r) is what creating r sets; both nil differ in nothing.
func Diff(oldRule, newRule *Rule) []Change {
	var changes []Change
	for _, f := range fields {
		var was, is any
		if oldRule != nil {
			was = f.get(oldRule)
		}
		if newRule != nil {
			is = f.get(newRule)
		}
		if !reflect.DeepEqual(was, is) {
			changes = append(changes, Change{Field: f.name, Old: was, New: is})
		}
	}
	return changes
}
