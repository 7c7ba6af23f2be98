package match

import (
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// OwnLimit returns the rule's own limit at an instant, with schedule and calendar applied: the
// limit of a request without tier and override.
func (c *Compiled) OwnLimit(now time.Time) limiter.Limit { return c.Base(now.UnixMilli()) }

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
	key, _, _ := m.Key.Period()
	return key[:len(key)-len(c.suffix)] + limiter.Key(c.candidate.suffix), l, true
}

// PhaseAt returns the window of the rule's schedule that contains an instant, -1 for none, and
// until when that does not change (the zero time: never).
func (c *Compiled) PhaseAt(now time.Time) (window int, until time.Time) {
	window, last := c.Phase(now.UnixMilli())
	if last != rules.MaxInstant {
		until = time.UnixMilli(last).UTC()
	}
	return window, until
}

// lifeSpan returns a rule's life span in ms since the epoch.
func lifeSpan(r *rules.Rule) (from, until int64) {
	from, until = rules.MinInstant, rules.MaxInstant
	if r.ActiveFrom != nil {
		from = r.ActiveFrom.UnixMilli()
	}
	if r.ActiveUntil != nil {
		until = r.ActiveUntil.UnixMilli()
	}
	return from, until
}
