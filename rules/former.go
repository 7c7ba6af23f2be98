package rules

import (
	"fmt"
	"time"

	"sluice/limiter"
	"sluice/rules/override"
)

// Former is what limited the keys of a rule before the last edit that changed the kind of its algorithm
// (limiter.Traits.Kind). Under another kind a key has another bucket, so nodes send the limit of the old one with their
// questions for one of its windows, and the store moves what was spent. People do not write it.
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
}

// FormerAfter returns the Former of a rule after an edit at an instant: what limited it before the edit if that changed
// the kind and keeps what was spent, nil if it loses that (see EditWarnings), and the one that it has if the kind
// stays.
func FormerAfter(was, is *Rule, at time.Time) *Former {
	switch {
	case was.Traits().Kind == is.Traits().Kind:
		return was.Former
	case lossOf(was, is) != "":
		return nil
	}
	w := was.Clone()
	return &Former{AtMS: at.UnixMilli(), Algorithm: w.Algorithm, Limit: w.Limit, WindowMS: w.WindowMS, Burst: w.Burst,
		Align: w.Align, AnchorMS: w.AnchorMS, Buckets: w.Buckets, Tiers: w.Tiers, Schedule: w.Schedule, Calendar: w.Calendar}
}

// lossOf says why an edit that changes the kind of a rule's algorithm loses what was spent, "" if it does not.
func lossOf(was, is *Rule) string {
	switch {
	case was.Traits().Kind == is.Traits().Kind:
		return ""
	case was.Traits().Slots || is.Traits().Slots:
		return "concurrency counts requests in progress, and the other algorithms count what was spent"
	case was.spans() || is.spans():
		return "the limit reaches beyond one region"
	}
	return ""
}

// spans reports whether the rule has a span other than region.
func (r *Rule) spans() bool { return r.Span != "" && r.Span != SpanRegion }

// FormerLimit is the limit that a bucket had under the algorithm before the last edit of it.
type FormerLimit struct {
	Limit limiter.Limit
	// Until is when nothing that was spent before the edit counts any more, in ms since the epoch.
	Until int64
}

// former is the compiled Former of a rule.
type former struct {
	at     int64
	limits Compiled // Limit, tiers and timed
}

// compileFormer returns the former limits of a rule with an algorithm, nil if there are none that are of use. It never
// refuses a rule.
func compileFormer(r *Rule, is limiter.Algorithm) *former {
	f := r.Former
	if f == nil || r.spans() {
		return nil
	}
	before := &Rule{Algorithm: f.Algorithm, Limit: f.Limit, WindowMS: f.WindowMS, Burst: f.Burst, Align: f.Align,
		AnchorMS: f.AnchorMS, Buckets: f.Buckets, Tiers: f.Tiers, Schedule: f.Schedule, Calendar: f.Calendar}
	l, err := before.LimiterLimit()
	if err != nil || !limiter.Movable(l.Algorithm, is) {
		return nil
	}
	var ps problems
	out := &former{at: f.AtMS, limits: Compiled{Limit: l, tiers: validateTiers(before, l, &ps)}}
	out.limits.setTimed(validateSchedule(before, l, out.limits.tiers, &ps), validateCalendar(before, &ps))
	if len(ps) > 0 {
		return nil
	}
	return out
}

// of returns what a former limit is with an override, nil for none, or nil once its window has passed.
func (f *former) of(l limiter.Limit, e *override.Effect, now int64) *FormerLimit {
	if e != nil {
		l = e.Apply(l)
	}
	until := f.at + countsFor(l)
	if now >= until {
		return nil
	}
	return &FormerLimit{Limit: l, Until: until}
}

// countsFor returns for how long a limit counts what was spent, in ms: its window, or until a bucket has drained.
func countsFor(l limiter.Limit) int64 {
	switch {
	case !l.Algorithm.Bucketed():
		return l.Window
	case l.Count == 0: // it does not drain
		return limiter.MaxWindow
	}
	return min((l.Burst*l.Window+l.Count-1)/l.Count, limiter.MaxWindow)
}

// former returns the former limit of a bucket of rule c, which has one. facts is the part of the bucket's key before
// the rule. A key that is blocked, or was or is unlimited, has none: what it spent waits for the end of the override.
func (k *keyer) former(c *Compiled, o *override.OfRule, facts []byte, now int64) *FormerLimit {
	if l := c.former.limits.base(now); !l.Algorithm.Bucketed() && now >= c.former.at+l.Window {
		return nil // neither a tier nor an override changes that
	}
	if o != nil {
		if a, e := k.find(o, c, facts, now); e != nil {
			return c.formerBase(a, e, now)
		}
	}
	l, limited := c.former.limits.effective(k.d, now)
	if !limited {
		return nil
	}
	return c.former.of(l, nil, now)
}

// formerBase is keyer.former for a key without a tier, with the override a and its effect e, nil for none. The rule
// need not have a former.
func (c *Compiled) formerBase(a override.Applied, e *override.Effect, now int64) *FormerLimit {
	if c.former == nil || a.Blocked || a.Unlimited {
		return nil
	}
	return c.former.of(c.former.limits.base(now), e, now)
}

// sentence says, after another sentence, that the figures of a bucket include what was spent under its former limit; ""
// for none.
func (f *FormerLimit) sentence() string {
	if f == nil {
		return ""
	}
	until := time.UnixMilli(f.Until)
	return fmt.Sprintf(" Until %s the figures include what was spent under %s.", formatInstant(&until), f.Limit.Algorithm)
}
