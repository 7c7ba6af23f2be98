package rules

import (
	"sluice/limiter"
	"sluice/rules/field"
)

// Delay slows admitted requests down before the limit denies any: each has to wait StepMS for every unit above After
// that counts after it. Callers and gateways wait, Sluice does not.
type Delay struct {
	// After is 0 to limiter.MaxExact units; nil is invalid. StepMS is 1 to MaxDelay. MostMS is the longest wait, 1 to
	// MaxDelay; 0 is DefaultDelayMost.
	After  *int64 `json:"after"`
	StepMS int64  `json:"step_ms"`
	MostMS int64  `json:"most_ms"`
}

// MaxDelay is the longest delay of an admitted request, and MaxTarpit of a denied one, in ms.
const (
	MaxDelay         int64 = 3_600_000
	DefaultDelayMost int64 = 10_000
	MaxTarpit        int64 = 10_000
)

var delayFields = []field.Field[Delay]{
	{Name: "after", At: func(d *Delay) any { return &d.After }, Required: true, Most: limiter.MaxExact},
	{
		Name: "step_ms", At: func(d *Delay) any { return &d.StepMS }, Required: true, NotZero: true,
		Least: 1, Most: MaxDelay, Millis: true,
	},
	{
		Name: "most_ms", At: func(d *Delay) any { return &d.MostMS }, NotZero: true,
		Least: 1, Most: MaxDelay, Millis: true,
	},
}

// DelayFields is Fields for a delay.
func DelayFields() []field.Field[Delay] { return delayFields }

func (d *Delay) normalized() *Delay {
	out := *d
	if out.MostMS == 0 {
		out.MostMS = DefaultDelayMost
	}
	return &out
}

// validateDelay checks the delays of admitted and of denied requests, and their combinations with other members.
func validateDelay(r *Rule, ps *field.Problems) {
	if r.TarpitMS != nil {
		switch {
		case r.OverLimit == OverLimitDefer:
			ps.Add("tarpit_ms", "cannot be combined with over_limit defer, which lets requests wait")
		case r.Unlimited:
			ps.Add("tarpit_ms", "does not apply to an unlimited rule, which never denies")
		}
	}
	if r.Hidden && (r.Delay != nil || r.TarpitMS != nil) {
		ps.Add("hidden", "cannot be combined with delay and tarpit_ms, which clients notice")
	}
	if r.Delay == nil {
		return
	}
	switch t := r.Traits(); {
	case t.Queues:
		ps.Add("delay", "does not apply to %s, which has delays of its own", r.Algorithm)
	case t.Slots:
		ps.Add("delay", "does not apply to %s, whose requests would hold their slots while they wait", r.Algorithm)
	case r.Unlimited:
		ps.Add("delay", "does not apply to an unlimited rule, which has no limit")
	case r.ChargeOn == ChargeOnReport:
		ps.Add("delay", "cannot be combined with charge_on report, whose checks only look")
	}
	if r.HotKeys != HotKeysExact {
		ps.Add("hot_keys", "must be exact with a delay, which depends on what every request leaves")
	}
	if r.Delay.After == nil {
		ps.Add("delay.after", "is required")
	}
	field.Bounds(delayFields, r.Delay, "delay.", ps)
}

// Of returns how long a request has to wait, in ms, after which a decision on limit l was made.
//
// A bucket drains all the time, so that what counts in it has a fraction. The time until it is empty gives that,
// rounded up to what drains in a millisecond.
func (d *Delay) Of(l *limiter.Limit, made *limiter.Decision) int64 {
	scale, over := int64(1), made.Used-*d.After
	if over <= 0 {
		return 0
	}
	if over-1 > d.MostMS/d.StepMS {
		return d.MostMS
	}
	if l.Algorithm.Traits().Decay == limiter.DecayDrain && l.Count > 0 {
		scale = l.Window
		over *= scale
		over -= lacking(l, made)
	}
	return min(d.MostMS, (over*d.StepMS+scale-1)/scale)
}

// lacking returns the difference between Used, which is rounded up to whole units, and the level of a bucket, in parts
// of a unit. A unit has as many parts as its window has milliseconds. It is 0 where the reset does not show the level:
// units of other regions are in Used only, and a clock that was set back makes the reset longer.
func lacking(l *limiter.Limit, made *limiter.Decision) int64 {
	if made.Reset == limiter.Never || made.Used > limiter.MaxExact/l.Window || made.Reset > limiter.MaxExact/l.Count {
		return 0
	}
	if parts := made.Used*l.Window - made.Reset*l.Count; parts > 0 && parts < l.Window {
		return parts
	}
	return 0
}
