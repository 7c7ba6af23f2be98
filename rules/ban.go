package rules

import (
	"sluice/limiter"
	"sluice/rules/field"
)

// Ban denies a key for ForMS once the rule's own limit has denied it After times within WithinMS of the
// first of these denials. Denials during a ban do not count. See limiter.BanLimit.
type Ban struct {
	// After is 1 to limiter.MaxBanDenials.
	After    int64 `json:"after"`
	WithinMS int64 `json:"within_ms"`
	ForMS    int64 `json:"for_ms"`
	// Grow, 1 to limiter.MaxBanGrow, multiplies the length of a ban that begins within MostMS of the end of the
	// previous one; 0 is 1. No ban is longer than MostMS; 0 is defaultBanMost times ForMS.
	Grow   int64 `json:"grow"`
	MostMS int64 `json:"most_ms"`
}

var banFields = []field.Field[Ban]{
	{
		Name: "after", At: func(b *Ban) any { return &b.After }, Required: true, NotZero: true,
		Least: 1, Most: limiter.MaxBanDenials,
	},
	{
		Name: "within_ms", At: func(b *Ban) any { return &b.WithinMS }, Required: true, NotZero: true,
		Least: 1, Most: limiter.MaxWindow, Millis: true,
	},
	{
		Name: "for_ms", At: func(b *Ban) any { return &b.ForMS }, Required: true, NotZero: true,
		Least: 1, Most: limiter.MaxWindow, Millis: true,
	},
	{Name: "grow", At: func(b *Ban) any { return &b.Grow }, NotZero: true, Least: 1, Most: limiter.MaxBanGrow},
	{
		Name: "most_ms", At: func(b *Ban) any { return &b.MostMS }, NotZero: true,
		Least: 1, Most: limiter.MaxWindow, Millis: true,
	},
}

// defaultBanMost is the default of MostMS, as a multiple of ForMS.
const defaultBanMost = 64

// BanFields is Fields for a ban.
func BanFields() []field.Field[Ban] { return banFields }

func (b *Ban) normalized() *Ban {
	out := *b
	if out.Grow == 0 {
		out.Grow = 1
	}
	if out.MostMS == 0 && out.ForMS > 0 {
		out.MostMS = limiter.MaxWindow
		if out.ForMS <= limiter.MaxWindow/defaultBanMost {
			out.MostMS = defaultBanMost * out.ForMS
		}
	}
	return &out
}

// Limit returns the limit of a valid ban, nil for none.
func (b *Ban) Limit() *limiter.Limit {
	if b == nil {
		return nil
	}
	l := limiter.BanLimit(b.After, b.WithinMS, b.ForMS, b.Grow, b.MostMS)
	return &l
}

// validateBan checks the ban and its combinations with other members. It counts denials that the rule's own limit
// decides exactly and at once.
func validateBan(r *Rule, ps *field.Problems) {
	b := r.Ban
	if b == nil {
		return
	}
	switch {
	case r.Traits().Slots:
		ps.Add("ban", "does not apply to concurrency")
	case r.Mode == ModeShadow:
		ps.Add("ban", "cannot be combined with mode shadow, which never denies")
	case r.HotKeys != HotKeysExact:
		ps.Add("ban", "requires hot_keys exact, because each denial counts")
	case r.Throttle == ThrottleElastic:
		ps.Add("ban", "cannot be combined with throttle elastic, whose denials depend on a pool")
	case r.OverLimit == OverLimitDefer:
		ps.Add("ban", "cannot be combined with over_limit defer, which lets requests wait")
	case r.Quota:
		ps.Add("ban", "does not apply to a quota, which denies only together with others")
	case r.Unlimited:
		ps.Add("ban", "does not apply to an unlimited rule, which never denies")
	}
	for i := range banFields {
		f := &banFields[i]
		at := "ban." + f.Name
		switch n, _ := f.At(b).(*int64); {
		case *n == 0 && f.Required:
			ps.Add(at, "is required")
		case f.Name == "most_ms" && (b.ForMS < 1 || b.ForMS > limiter.MaxWindow): // it follows for_ms
		case f.Name == "most_ms" && *n >= 0 && *n < b.ForMS:
			ps.Add(at, "must not be less than for_ms, which is %d", b.ForMS)
		default:
			f.BoundNumber(at, *n, ps)
		}
	}
}
