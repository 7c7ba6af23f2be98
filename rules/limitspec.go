package rules

import "sluice/limiter"

// LimitSpec is a limit as people write it, in a rule or in a direct check:
// names as strings, absent settings nil.
type LimitSpec struct {
	Algorithm string
	Limit     int64
	WindowMS  int64
	Burst     *int64
	Align     *string
	AnchorMS  *int64
	Buckets   *int64
}

// Resolve applies defaults and validates. The error is a *ValidationError that
// names every bad field.
func (s LimitSpec) Resolve() (limiter.Limit, error) {
	var fields []FieldError
	l := limiter.Limit{Algorithm: limiter.DefaultAlgorithm, Count: s.Limit, Window: s.WindowMS}
	if s.Algorithm != "" {
		a, err := limiter.ParseAlgorithm(s.Algorithm)
		if err != nil {
			return limiter.Limit{}, &ValidationError{Fields: []FieldError{{Field: "algorithm", Message: err.Error()}}}
		}
		l.Algorithm = a
	}
	if l.Algorithm.Bucketed() {
		l.Burst = l.Count
	}
	if s.Burst != nil {
		l.Burst = *s.Burst
		if !l.Algorithm.Bucketed() {
			fields = append(fields, FieldError{"burst", "does not apply to " + l.Algorithm.String() + "; it belongs to token_bucket, gcra, leaky_bucket and leaky_queue"})
			l.Burst = 0
		}
	}
	if s.Align != nil {
		a, err := limiter.ParseAlign(*s.Align)
		if err != nil {
			fields = append(fields, FieldError{"align", err.Error()})
		} else if l.Algorithm != limiter.FixedWindow {
			fields = append(fields, FieldError{"align", "does not apply to " + l.Algorithm.String() + "; it belongs to fixed_window"})
		}
		if l.Algorithm == limiter.FixedWindow {
			l.Align = a
		}
	}
	if s.AnchorMS != nil {
		l.Anchor = *s.AnchorMS
	}
	if l.Algorithm == limiter.SlidingWindowBuckets {
		l.Buckets = max(1, min(limiter.DefaultBuckets, l.Window))
	}
	if s.Buckets != nil {
		l.Buckets = *s.Buckets
	}
	for _, p := range l.Problems() {
		fields = append(fields, FieldError(p))
	}
	if len(fields) > 0 {
		return limiter.Limit{}, &ValidationError{Fields: fields}
	}
	return l, nil
}
