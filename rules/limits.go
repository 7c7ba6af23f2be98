package rules

import (
	"sync/atomic"

	"sluice/limiter"
	"sluice/rules/field"
)

// Limits are the limits of a rule over time. They are immutable and safe for concurrent use; copies share what they
// remember.
type Limits struct {
	// Limit is the rule's own, outside of schedule and calendar. With a limit_field it obeys the limit that the bucket
	// keeps (limiter.KeptObeyed). The limits of the schedule obey it too, the limits of tiers do not.
	Limit limiter.Limit
	// Tiers replace it for the requests of a tier; nil for none.
	Tiers map[string]Variant

	timed *timed // nil without schedule and calendar
}

// Variant is a limit that replaces the rule's own.
type Variant struct {
	Limit     limiter.Limit
	Unlimited bool
}

// Vary reports whether the limit of a request depends on its tier or on the time.
func (l *Limits) Vary() bool { return l.Tiers != nil || l.timed != nil || l.Limit.PerPeriod }

// For returns the limit of a request at an instant, in ms since the epoch, in order of precedence: its tier's ("" is
// none), the schedule's, the rule's own. False means that the rule does not limit the request.
func (l *Limits) For(tier string, now int64) (limiter.Limit, bool) {
	own, tiers := &l.Limit, l.Tiers
	if l.timed != nil {
		p := l.timed.at(now)
		own, tiers = &p.own, p.tiers
	}
	if tiers != nil {
		if v, ok := tiers[tier]; ok && tier != "" {
			return v.Limit.At(now), !v.Unlimited
		}
	}
	return own.At(now), true
}

// Base returns the rule's own limit at an instant, in ms since the epoch, with schedule and calendar applied. Overrides
// change its numbers.
func (l *Limits) Base(now int64) limiter.Limit {
	if l.timed != nil {
		return l.timed.at(now).own.At(now)
	}
	return l.Limit.At(now)
}

// Phase returns the window of the schedule that contains an instant, -1 for none, and until when neither it nor the
// period of the calendar changes: in ms since the epoch, MaxInstant for never.
func (l *Limits) Phase(now int64) (window int, until int64) {
	if l.timed == nil {
		return -1, MaxInstant
	}
	p := l.timed.find(now)
	return p.window, p.until
}

// Instants that no clock reaches, in ms since the epoch.
const (
	MinInstant = -1 << 62
	MaxInstant = 1 << 62
)

// phase holds a rule's limits in a period during which neither its schedule nor its calendar
// changes.
type phase struct {
	from, until int64 // ms since the epoch; until is exclusive
	own         limiter.Limit
	tiers       map[string]Variant
	window      int // of the schedule, -1 outside all
}

// timed finds the phase of a rule with a schedule or a calendar. It caches the last one found, so
// that a check costs two comparisons.
type timed struct {
	schedule *schedule
	calendar *calendar
	own      limiter.Limit
	tiers    map[string]Variant
	last     atomic.Pointer[phase]
}

// at returns the phase at an instant.
func (t *timed) at(now int64) *phase {
	if p := t.last.Load(); p != nil && p.from <= now && now < p.until {
		return p
	}
	p := t.find(now)
	t.last.Store(p)
	return p
}

// find computes the phase at an instant.
func (t *timed) find(now int64) *phase {
	p := &phase{from: MinInstant, until: MaxInstant, own: t.own, tiers: t.tiers, window: -1}
	if t.schedule != nil {
		t.schedule.apply(p, now)
	}
	if t.calendar != nil {
		t.calendar.apply(p, now)
	}
	return p
}

// validateLimits returns the limits of a rule over time. base is the rule's own limit, or the zero Limit if that is
// invalid; checks that depend on it are then skipped.
func validateLimits(r *Rule, base limiter.Limit, ps *field.Problems) Limits {
	if r.LimitField != nil && base.Algorithm == limiter.FixedWindow {
		base.Kept = limiter.KeptObeyed
	}
	l := Limits{Limit: base, Tiers: validateTiers(r, base, ps)}
	s, c := validateSchedule(r, base, l.Tiers, ps), validateCalendar(r, ps)
	if s != nil || c != nil {
		l.timed = &timed{schedule: s, calendar: c, own: base, tiers: l.Tiers}
	}
	return l
}
