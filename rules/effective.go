package rules

import (
	"sync/atomic"
	"time"

	"sluice/limiter"
)

// phase holds a rule's limits in a period during which neither its schedule nor its calendar
// changes.
type phase struct {
	from, until int64 // ms since the epoch; until is exclusive
	own         limiter.Limit
	tiers       map[string]variant
	window      int // of the schedule, -1 outside all
}

// timed finds the phase of a rule with a schedule or a calendar. It caches the last one found, so
// that a check costs two comparisons.
type timed struct {
	schedule *schedule
	calendar *calendar
	own      limiter.Limit
	tiers    map[string]variant
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
	p := &phase{from: minInstant, until: maxInstant, own: t.own, tiers: t.tiers, window: -1}
	if t.schedule != nil {
		t.schedule.apply(p, now)
	}
	if t.calendar != nil {
		t.calendar.apply(p, now)
	}
	return p
}

// Instants that no clock reaches.
const (
	minInstant = -1 << 62
	maxInstant = 1 << 62
)

// effective returns the limit of a request at an instant, in order of precedence: its tier's, the
// schedule's, the rule's own. False means that the rule does not limit the request.
func (c *Compiled) effective(d *Descriptor, now int64) (limiter.Limit, bool) {
	own, tiers := &c.Limit, c.tiers
	if c.timed != nil {
		p := c.timed.at(now)
		own, tiers = &p.own, p.tiers
	}
	if tiers != nil {
		if v, ok := tiers[d.Tier]; ok && d.Tier != "" {
			return v.limit, !v.unlimited
		}
	}
	return *own, true
}

// base returns the rule's own limit in the current period of its calendar. Overrides change its
// numbers.
func (c *Compiled) base(now int64) limiter.Limit {
	if c.timed != nil {
		return c.timed.at(now).own
	}
	return c.Limit
}

// OwnLimit returns the rule's own limit at an instant, with schedule and calendar applied: the
// limit of a request without tier and override.
func (c *Compiled) OwnLimit(now time.Time) limiter.Limit { return c.base(now.UnixMilli()) }

// lifeSpan returns a rule's life span in ms since the epoch.
func lifeSpan(r *Rule) (from, until int64) {
	from, until = minInstant, maxInstant
	if r.ActiveFrom != nil {
		from = r.ActiveFrom.UnixMilli()
	}
	if r.ActiveUntil != nil {
		until = r.ActiveUntil.UnixMilli()
	}
	return from, until
}

// Candidate returns the bucket and limit of the rule's candidate for this request, or false if the
// rule has none or an override replaces both limits. The candidate takes the weight of the match.
func (m *Match) Candidate() (limiter.Key, limiter.Limit, bool) {
	c := m.Rule
	if c.Candidate == nil || m.Override.ID != 0 {
		return "", limiter.Limit{}, false
	}
	l := *c.Candidate
	if c.candidate.follows {
		l.Window, l.Anchor = m.Limit.Window, m.Limit.Anchor
	}
	return m.Key[:len(m.Key)-len(c.suffix)] + limiter.Key(c.candidate.suffix), l, true
}

// PhaseAt returns the window of the rule's schedule that contains an instant, -1 for none, and
// until when that does not change (the zero time: never).
func (c *Compiled) PhaseAt(now time.Time) (window int, until time.Time) {
	if c.timed == nil {
		return -1, time.Time{}
	}
	p := c.timed.find(now.UnixMilli())
	if p.until != maxInstant {
		until = time.UnixMilli(p.until).UTC()
	}
	return p.window, until
}
