package rules

import (
	"slices"

	"sluice/rules/field"
)

// Denial says what clients of the rule's denials receive. It changes no decision.
type Denial struct {
	// Status is 402, 403 or 429; 0 means 429. A denial with 503 keeps its status.
	Status int64 `json:"status"`
	// Retry is RetryWait or RetryNever.
	Retry string `json:"retry"`
}

// Words of Denial.Retry. With RetryNever a denial has no Retry-After, as if waiting did not end it.
const (
	RetryWait  = "wait"
	RetryNever = "never"
)

// DefaultDenial is the status of a denial by a limit.
const DefaultDenial = 429

var denialStatuses = []int64{402, 403, DefaultDenial}

var denialFields = []field.Field[Denial]{
	{Name: "status", At: func(d *Denial) any { return &d.Status }, NotZero: true},
	{Name: "retry", At: func(d *Denial) any { return &d.Retry }, Default: RetryWait,
		OneOf: []string{RetryWait, RetryNever}},
}

// DenialFields is Fields for a denial.
func DenialFields() []field.Field[Denial] { return denialFields }

func (d *Denial) normalized() *Denial {
	out := *d
	field.Normalize(denialFields, &out)
	if out.Status == 0 {
		out.Status = DefaultDenial
	}
	return &out
}

func validateDenial(r *Rule, ps *field.Problems) {
	d := r.Denial
	if d == nil {
		return
	}
	switch {
	case r.OverLimit == OverLimitDefer:
		ps.Add("denial", "cannot be combined with over_limit defer, which lets requests wait")
	case r.Unlimited:
		ps.Add("denial", "does not apply to an unlimited rule, which never denies")
	}
	if !slices.Contains(denialStatuses, d.Status) {
		ps.Add("denial.status", "must be 402, 403 or 429")
	}
	field.Bounds(denialFields, d, "denial.", ps)
	if d.Retry == RetryNever && r.RetryJitterMS != nil {
		ps.Add("retry_jitter_ms", "does not apply with denial.retry never, after which nobody waits")
	}
}

// validateHidden checks that nothing which clients receive shows a hidden rule.
func validateHidden(r *Rule, ps *field.Problems) {
	if !r.Hidden {
		return
	}
	if t := r.Traits(); t.Slots || t.Queues {
		ps.Add("hidden", "does not apply to %s, whose leases or delays clients see", r.Algorithm)
	}
	if r.Message != nil {
		ps.Add("message", "must be left out of a hidden rule, about which clients learn nothing")
	}
}
