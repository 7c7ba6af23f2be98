package match

import (
	"fmt"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/override"
)

// FormerLimit is the limit that a bucket had under the algorithm before the last edit of it.
type FormerLimit struct {
	Limit limiter.Limit
	// Until is when nothing that was spent before the edit counts any more, in ms since the epoch.
	Until int64
}

// former is the compiled Former of a rule.
type former struct {
	at     int64
	limits rules.Limits
}

// compileFormer returns the former limits of a rule with an algorithm, nil if there are none that are of use. It never
// refuses a rule.
func compileFormer(r *rules.Rule, is limiter.Limit) *former {
	if r.Former == nil || r.Spans() {
		return nil
	}
	l, ok := r.Former.Limits()
	if !ok || !limiter.Movable(l.Limit, is) {
		return nil
	}
	return &former{at: r.Former.AtMS, limits: l}
}

// of returns the former limit under an override, which is nil if there is none. It returns nil once the window of the
// former limit has passed.
func (f *former) of(l limiter.Limit, e *override.Effect, now int64) *FormerLimit {
	if l = l.At(now); e != nil {
		l = periodsOf(&f.limits, e.Apply(l), e, now)
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
// the rule. A key that is blocked, or was or is unlimited, has none: its spent units are kept until the end of the
// override.
func (k *keyer) former(c *Compiled, o *override.OfRule, facts []byte, now int64) *FormerLimit {
	if l := c.former.limits.Base(now); !l.Algorithm.Bucketed() && now >= c.former.at+2*l.Window {
		return nil // no tier changes that, and a calendar of an override makes at most two periods one
	}
	var e *override.Effect
	if o != nil {
		var a override.Applied
		if a, e = k.find(o, c, facts, now); e != nil && !a.KeepsLimit {
			return c.formerBase(a, e, now)
		}
	}
	l, limited := c.former.limits.For(k.d.Tier, now)
	if !limited {
		return nil
	}
	return c.former.of(l, e, now)
}

// formerBase is keyer.former for a key without a tier, with the override a and its effect e, nil for none. The rule
// need not have a former.
func (c *Compiled) formerBase(a override.Applied, e *override.Effect, now int64) *FormerLimit {
	if c.former == nil || a.Blocked || a.Unlimited {
		return nil
	}
	return c.former.of(c.former.limits.Base(now), e, now)
}

// sentence says, after another sentence, that the figures of a bucket include what was spent under its former limit; ""
// for none.
func (f *FormerLimit) sentence() string {
	if f == nil {
		return ""
	}
	until := time.UnixMilli(f.Until)
	return fmt.Sprintf(" Until %s the figures include what was spent under %s.", field.FormatInstant(&until),
		f.Limit.Algorithm)
}
