package rules

import (
	"sluice/limiter"
	"sluice/rules/field"
)

// MaxKeepPeriods is the largest Rule.KeepPeriods.
const MaxKeepPeriods = 1000

// IsMeter reports whether the rule counts what passes and never denies: it is unlimited and has a scope. An unlimited
// rule with a descriptor counts nothing.
func (r *Rule) IsMeter() bool { return r.Unlimited && r.Descriptor == nil }

// validateKeep checks keep_periods: periods are the same for all keys of a rule, and one store holds the whole bucket.
func validateKeep(r *Rule, ps *field.Problems) {
	if r.KeepPeriods == nil {
		return
	}
	t := r.Traits()
	switch {
	case t.Name != "" && t.Setting != limiter.SettingAlign:
		ps.Add("keep_periods", "does not apply to %s, only to fixed_window", r.Algorithm)
	case r.Align != nil && *r.Align == limiter.AlignFirstHit.String():
		ps.Add("keep_periods", "does not apply to align first_hit, because each key then has periods of its own")
	case r.Unlimited && r.Descriptor != nil:
		ps.Add("keep_periods", "does not apply to an unlimited rule with a descriptor, which counts nothing")
	}
	if r.WindowMS > 0 && r.WindowMS < limiter.MinPeriod {
		ps.Add("window_ms", "must be at least %d (an hour) with keep_periods", limiter.MinPeriod)
	}
	if r.Spans() {
		ps.Add("span", "must be region with keep_periods")
	}
	if r.HotKeys != HotKeysExact {
		ps.Add("hot_keys", "must be exact with keep_periods, because a statement has what was spent, not what was leased")
	}
}

// validateMeter checks what does not go with a rule that never denies.
func validateMeter(r *Rule, ps *field.Problems) {
	if !r.IsMeter() {
		return
	}
	if t := r.Traits(); t.Name != "" && t.Setting != limiter.SettingAlign {
		ps.Add("algorithm", "must be fixed_window for an unlimited rule, which counts without a bound")
	}
	if r.FailMode == FailClosed {
		ps.Add("fail_mode", "must be open or local for an unlimited rule, which never denies")
	}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"limit", r.Limit != 0}, {"throttle", r.Throttle != "" && r.Throttle != ThrottleHard}, {"pool", r.Pool != nil},
		{"tiers", len(r.Tiers) > 0}, {"schedule", r.Schedule != nil}, {"over_limit", r.OverLimit == OverLimitDefer},
		{"candidate", r.Candidate != nil}, {"retry_jitter_ms", r.RetryJitterMS != nil},
		{"notify_percent", len(r.NotifyPercent) > 0}, {"message", r.Message != nil}, {"mode", r.Mode == ModeShadow},
		{"overload", r.Overload != nil},
	} {
		if f.given {
			ps.Add(f.name, "does not apply to an unlimited rule, which never denies; leave it out")
		}
	}
}
