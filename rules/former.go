package rules

import (
	"time"

	"sluice/rules/field"
)

// Former is the limit of the keys of a rule before the last edit that changed the kind of its algorithm
// (limiter.Traits.Kind). Under another kind a key uses another bucket, so nodes send the former limit with their
// requests for one of its windows, and the store moves the spent units. People do not write it.
type Former struct {
	// AtMS is the instant of the edit, in ms since the epoch.
	AtMS      int64                `json:"at_ms"`
	Algorithm string               `json:"algorithm"`
	Limit     int64                `json:"limit"`
	WindowMS  int64                `json:"window_ms"`
	Burst     *int64               `json:"burst,omitempty"`
	Align     *string              `json:"align,omitempty"`
	AnchorMS  *int64               `json:"anchor_ms,omitempty"`
	Buckets   *int64               `json:"buckets,omitempty"`
	Tiers     map[string]TierLimit `json:"tiers,omitempty"`
	Schedule  *Schedule            `json:"schedule,omitempty"`
	Calendar  *Calendar            `json:"calendar,omitempty"`
	// KeepPeriods and Unlimited are copied from the rule.
	KeepPeriods *int64 `json:"keep_periods,omitempty"`
	Unlimited   bool   `json:"unlimited,omitempty"`
}

// FormerAfter returns the Former of a rule after an edit at an instant. If the edit changed the kind, or whether
// periods are kept, it is the limit before the edit, or nil if the edit loses the spent units (see EditWarnings).
// Otherwise it stays.
func FormerAfter(was, is *Rule, at time.Time) *Former {
	switch {
	case sameBuckets(was, is):
		return was.Former
	case lossOf(was, is) != "":
		return nil
	}
	w := was.Clone()
	return &Former{AtMS: at.UnixMilli(), Algorithm: w.Algorithm, Limit: w.Limit, WindowMS: w.WindowMS, Burst: w.Burst,
		Align: w.Align, AnchorMS: w.AnchorMS, Buckets: w.Buckets, Tiers: w.Tiers, Schedule: w.Schedule, Calendar: w.Calendar,
		KeepPeriods: w.KeepPeriods, Unlimited: w.IsMeter()}
}

// sameBuckets reports whether an edit leaves each key its bucket.
func sameBuckets(was, is *Rule) bool {
	return was.Traits().Kind == is.Traits().Kind && (was.KeepPeriods == nil) == (is.KeepPeriods == nil)
}

// lossOf says why an edit that changes the kind of a rule's algorithm loses what was spent, "" if it does not.
func lossOf(was, is *Rule) string {
	switch {
	case sameBuckets(was, is):
		return ""
	case was.Traits().Slots || is.Traits().Slots:
		return "concurrency counts requests in progress, and the other algorithms count what was spent"
	case was.Spans() || is.Spans():
		return "the limit reaches beyond one region"
	}
	return ""
}

// Spans reports whether the rule has a span other than region.
func (r *Rule) Spans() bool { return r.Span != "" && r.Span != SpanRegion }

// Limits returns the limits before the edit, false if they are not valid.
func (f *Former) Limits() (Limits, bool) {
	before := &Rule{Algorithm: f.Algorithm, Limit: f.Limit, WindowMS: f.WindowMS, Burst: f.Burst, Align: f.Align,
		AnchorMS: f.AnchorMS, Buckets: f.Buckets, Tiers: f.Tiers, Schedule: f.Schedule, Calendar: f.Calendar,
		KeepPeriods: f.KeepPeriods, Unlimited: f.Unlimited}
	l, err := before.LimiterLimit()
	if err != nil {
		return Limits{}, false
	}
	var ps field.Problems
	limits := validateLimits(before, l, &ps)
	return limits, len(ps) == 0
}
