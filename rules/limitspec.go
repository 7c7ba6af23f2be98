package rules

import (
	"sluice/limiter"
	"sluice/rules/field"
)

// LimitSpec is a limit as people write it, in a rule or in a direct check: names are strings,
// absent settings are nil.
type LimitSpec struct {
	Algorithm string
	Limit     int64
	WindowMS  int64
	Burst     *int64
	Align     *string
	AnchorMS  *int64
	Buckets   *int64
	// PerPeriod is copied to the limit, for fixed_window with windows by the clock; other limits ignore it.
	PerPeriod bool
}

// Resolve applies defaults (the algorithm, burst = limit, buckets = 60 or fewer for a tiny window)
// and validates. The error is a *field.ValidationError that names every invalid field, including
// settings that the algorithm would ignore.
func (s LimitSpec) Resolve() (limiter.Limit, error) {
	a := limiter.DefaultAlgorithm
	if s.Algorithm != "" {
		var err error
		if a, err = limiter.ParseAlgorithm(s.Algorithm); err != nil {
			return limiter.Limit{}, s.unknownAlgorithm(err)
		}
	}
	l := limiter.Limit{Algorithm: a, Count: s.Limit, Window: s.WindowMS}
	var ps field.Problems
	s.settings(&l, &ps)
	for _, p := range l.Problems() {
		ps.Add(p.Field, "%s", p.Message)
	}
	if len(ps) > 0 {
		return limiter.Limit{}, &field.ValidationError{Fields: ps}
	}
	return l, nil
}

// settings fills in the settings of l's algorithm and reports settings that do not apply to it.
func (s LimitSpec) settings(l *limiter.Limit, ps *field.Problems) {
	own := l.Algorithm.Traits().Setting
	for _, given := range []struct {
		field string
		of    limiter.Setting
		is    bool
	}{
		{"burst", limiter.SettingBurst, s.Burst != nil}, {"buckets", limiter.SettingBuckets, s.Buckets != nil},
		{"align", limiter.SettingAlign, s.Align != nil}, {"anchor_ms", limiter.SettingAlign, s.AnchorMS != nil},
	} {
		if given.is && given.of != own {
			ps.Add(given.field, "does not apply to %s, only to %s", l.Algorithm, given.of.Owners())
		}
	}
	switch own {
	case limiter.SettingBurst:
		l.Burst = l.Count
		if s.Burst != nil {
			l.Burst = *s.Burst
		}
	case limiter.SettingBuckets:
		l.Buckets = max(1, min(limiter.DefaultBuckets, l.Window))
		if s.Buckets != nil {
			l.Buckets = *s.Buckets
		}
	case limiter.SettingAlign:
		s.align(l, ps)
		l.PerPeriod = s.PerPeriod && l.Align == limiter.AlignCalendar
	}
}

// align sets the alignment of l's windows.
func (s LimitSpec) align(l *limiter.Limit, ps *field.Problems) {
	if s.Align != nil {
		a, err := limiter.ParseAlign(*s.Align)
		if err != nil {
			ps.Add("align", "%s", err)
		}
		l.Align = a
	}
	if s.AnchorMS != nil {
		l.Anchor = *s.AnchorMS
		if l.Anchor == 0 && l.Align == limiter.AlignFirstHit {
			ps.Add("anchor_ms", "does not apply to align first_hit, because such a window starts at its first request")
		}
	}
}

// unknownAlgorithm reports an invalid algorithm together with other problems of limit and window.
func (s LimitSpec) unknownAlgorithm(err error) error {
	ps := field.Problems{{Field: "algorithm", Message: err.Error()}}
	for _, p := range (limiter.Limit{Algorithm: limiter.FixedWindow, Count: s.Limit, Window: s.WindowMS}).Problems() {
		ps.Add(p.Field, "%s", p.Message)
	}
	return &field.ValidationError{Fields: ps}
}
