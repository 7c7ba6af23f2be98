package share

import (
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"sluice/limiter"
)

// Marks are the high-water marks of all rules. They were read after At, on the clock that states go by.
type Marks struct {
	At    int64
	Rules map[int64][]Mark
}

// Mark is the most units that may count at once in any one bucket whose whole limit has this Count and Burst. Burst is
// 0 for algorithms without.
type Mark struct {
	Count, Burst, Level int64
}

// MarkOf returns the high-water mark that covers the buckets of a rule with a limit, which is whole.
func MarkOf(c *Config, rule int64, l limiter.Limit) *limiter.HighWater {
	b := strconv.AppendInt(nil, rule, 10)
	b = strconv.AppendInt(append(b, ':'), l.Count, 10)
	h := &limiter.HighWater{Margin: c.Skew}
	if l.Algorithm.Traits().Setting == limiter.SettingBurst {
		b = strconv.AppendInt(append(b, ':'), l.Burst, 10)
	}
	// The reset of a bucket that drains is that at its present limit, and it drains more slowly at a lower one.
	if d := l.Algorithm.Traits().Decay; d != limiter.DecayAtOnce && d != limiter.DecaySliding {
		h.Life = Life(l)
	}
	h.Name = string(b)
	return h
}

// Markable reports whether high-water marks say what counts in buckets with the algorithm of a limit. Those of GCRA
// keep a time and not units: a lower limit makes less of what was spent, so that more can be spent than the mark says.
func Markable(l limiter.Limit) bool { return !l.Algorithm.Traits().Instant }

// NewMarks returns the marks that a store has, by the names that MarkOf gives.
func NewMarks(levels map[string]int64, at int64) *Marks {
	m := &Marks{At: at, Rules: map[int64][]Mark{}}
	for name, level := range levels {
		var n [3]int64
		for i, text := range strings.SplitN(name, ":", len(n)) {
			n[i], _ = strconv.ParseInt(text, 10, 64) // a key that belongs to no rule gets the number 0, which no rule has
		}
		m.Rules[n[0]] = append(m.Rules[n[0]], Mark{Count: n[1], Burst: n[2], Level: level})
	}
	return m
}

// covers reports whether marks that were read at a time cover all that counted then of a rule.
func (s *State) covers(c *Config, sp Spec, at int64) bool {
	return sp.New && sp.Marked-s.Began >= c.Skew || at-max(sp.Marked, s.Began) >= c.Valid+c.Skew+sp.Life
}

// fit reports whether no bucket holds more units than some parts of its limit.
func fit(marks []Mark, parts Spans) bool {
	return !slices.ContainsFunc(marks, func(m Mark) bool {
		l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: m.Count}
		if m.Burst > 0 {
			l.Algorithm, l.Burst = limiter.TokenBucket, m.Burst
		}
		return m.Level > Limit(l, parts).Capacity()
	})
}

// free ends the waiting for parts that no bucket has used: as many that the others still cover what counts in every
// bucket. Since the time at which the marks were read no node spends more than the others, if it knew of the hold
// by then.
func (s *State) free(c *Config, r *Rule, marks []Mark, at, now int64) {
	due := func(h Hold) bool { return !h.Free && at-h.Since >= c.Valid+c.Skew }
	waits := slices.ContainsFunc(r.Withheld, due)
	rest := c.own().Minus(r.lent())
	for _, h := range r.Withheld {
		if h.Free {
			rest = rest.Minus(h.Spans)
		}
	}
	for _, b := range r.Borrowed {
		waits = waits || slices.ContainsFunc(b.Leaving, due)
		if now < b.Until { // otherwise its owner no longer needs to wait for it
			rest = rest.Plus(b.used())
			for _, h := range b.Leaving {
				if !h.Free {
					rest = rest.Plus(h.Spans)
				}
			}
		}
	}
	if !waits {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Borrowed)) {
		b := r.Borrowed[name]
		rest = freeOf(&b.Leaving, due, marks, rest)
	}
	freeOf(&r.Withheld, due, marks, rest)
}

// freeOf frees as many of the last parts of some holds as leave enough, and returns what is left.
func freeOf(holds *[]Hold, due func(h Hold) bool, marks []Mark, rest Spans) Spans {
	var waiting Spans
	for _, h := range *holds {
		if due(h) {
			waiting = waiting.Plus(h.Spans)
		}
	}
	n := sort.Search(int(waiting.Size()), func(n int) bool { return !fit(marks, rest.Minus(waiting.Last(int64(n)+1))) })
	freed := waiting.Last(int64(n))
	var out []Hold
	for _, h := range *holds {
		if part := h.Spans.And(freed); due(h) && len(part) > 0 {
			out = append(out, Hold{Spans: part, Since: h.Since, Life: h.Life, Free: true})
			h.Spans = h.Spans.Minus(part)
		}
		if len(h.Spans) > 0 {
			out = append(out, h)
		}
	}
	*holds = out
	return rest.Minus(freed)
}

// Waits reports whether marks can end the waiting for something.
func (s *State) Waits() bool {
	waiting := func(h Hold) bool { return !h.Free }
	for _, r := range s.Rules {
		if slices.ContainsFunc(r.Withheld, waiting) {
			return true
		}
		for _, b := range r.Borrowed {
			if slices.ContainsFunc(b.Leaving, waiting) {
				return true
			}
		}
	}
	return false
}
