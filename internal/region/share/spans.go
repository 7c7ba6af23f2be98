package share

import (
	"cmp"
	"math/bits"
	"slices"

	"sluice/limiter"
)

// Whole is how many parts every limit has. Which of them a region may spend is independent of the limit, so that an
// edit of the limit, a tier and an override do not affect loans between regions.
const Whole int64 = 1 << 20

// Span is the parts from From to To, without To.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Spans are parts in ascending order, which do not overlap. Its methods return new ones.
type Spans []Span

// Segment is the equal part of a region, the i-th of n by name. The segments add up to Whole.
func Segment(i, n int) Span {
	return Span{Whole * int64(i) / int64(n), Whole * int64(i+1) / int64(n)}
}

// Size is the number of parts.
func (s Spans) Size() (n int64) {
	for _, p := range s {
		n += p.To - p.From
	}
	return n
}

// Units is how many of the units of a limit of n units are in the spans. Those of spans that together are Whole add
// up to n, however they are divided: a unit belongs to the span in which it begins.
func (s Spans) Units(n int64) (units int64) {
	for _, p := range s {
		units += before(p.To, n) - before(p.From, n)
	}
	return units
}

// before is how many of n units begin before a part: at*n/Whole, rounded up.
func before(at, n int64) int64 {
	hi, lo := bits.Mul64(uint64(at), uint64(n)) //nolint:gosec // not negative
	lo, carry := bits.Add64(lo, uint64(Whole-1), 0)
	quotient, _ := bits.Div64(hi+carry, lo, uint64(Whole))
	return int64(quotient) //nolint:gosec // at most n
}

// position is the part at which a unit of n begins: at the first part that it is not before.
func position(unit, n int64) int64 {
	hi, lo := bits.Mul64(uint64(unit), uint64(Whole)) //nolint:gosec // not negative
	quotient, _ := bits.Div64(hi, lo, uint64(n))      //nolint:gosec // unit is at most n
	return int64(quotient)                            //nolint:gosec // at most Whole
}

// Plus returns what is in either.
func (s Spans) Plus(o Spans) Spans {
	all := slices.Concat(s, o)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var out Spans
	for _, p := range all {
		switch last := len(out) - 1; {
		case p.From >= p.To:
		case last >= 0 && p.From <= out[last].To:
			out[last].To = max(out[last].To, p.To)
		default:
			out = append(out, p)
		}
	}
	return out
}

// Minus returns what is in s and not in o.
func (s Spans) Minus(o Spans) Spans {
	var out Spans
	for _, p := range s {
		for _, q := range o {
			if q.To <= p.From || q.From >= p.To {
				continue
			}
			if q.From > p.From {
				out = append(out, Span{p.From, q.From})
			}
			p.From = min(q.To, p.To)
		}
		if p.From < p.To {
			out = append(out, p)
		}
	}
	return out
}

// And returns what is in both.
func (s Spans) And(o Spans) Spans { return s.Minus(s.Minus(o)) }

// Last returns up to n parts, the last ones.
func (s Spans) Last(n int64) (out Spans) {
	for i := len(s) - 1; i >= 0 && n > 0; i-- {
		size := min(n, s[i].To-s[i].From)
		out = append(out, Span{s[i].To - size, s[i].To})
		n -= size
	}
	slices.Reverse(out)
	return out
}

// valid reports whether the spans are in order and within Whole. Those of other regions are checked.
func (s Spans) valid() bool {
	at := int64(0)
	for i, p := range s {
		if p.From < at || i > 0 && p.From == at || p.To <= p.From || p.To > Whole {
			return false
		}
		at = p.To
	}
	return len(s) <= mostSpans
}

// Units is the number of units of a limit that are divided. For a window this is its count. For a bucket it is the
// smaller of count and burst, so that a holder of one unit has a part of both. For a bucket that never drains it is its
// burst.
func Units(l limiter.Limit) int64 {
	switch {
	case l.Algorithm.Traits().Setting != limiter.SettingBurst:
		return l.Count
	case l.Count == 0:
		return l.Burst
	}
	return min(l.Count, l.Burst)
}

// Limit is the part of a limit that a region may spend without asking others. Parts that do not overlap add up to at
// most the limit. If the parts cover the whole limit, only the remainders of dividing count and burst are lost.
func Limit(l limiter.Limit, s Spans) limiter.Limit {
	all := Units(l)
	units := s.Units(all)
	switch {
	case units >= all:
	case l.Algorithm.Traits().Setting == limiter.SettingBurst:
		l.Count, l.Burst = fraction(l.Count, units, all), fraction(l.Burst, units, all)
	default:
		l.Count = units
	}
	return l
}

// fraction is n*units/all, rounded down.
func fraction(n, units, all int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(units)) //nolint:gosec // not negative
	quotient, _ := bits.Div64(hi, lo, uint64(all)) //nolint:gosec // units is less than all
	return int64(quotient)                         //nolint:gosec // at most n
}

// Life is the longest time, in ms, for which units count that a region spent before its part was made smaller. Until
// then no other region may spend the difference.
//
// For a bucket that drains it is the time in which the difference of the bursts drains at the difference of the rates.
// With exact parts that is burst/count windows. Rounding makes the difference of the bursts greater by less than a
// unit, or the difference of the counts smaller by less than half, so that twice the time and one more window are
// enough.
func Life(l limiter.Limit) int64 {
	switch l.Algorithm.Traits().Decay {
	case limiter.DecaySliding:
		return min(2*l.Window, limiter.MaxExact)
	case limiter.DecayDrain:
		if l.Count == 0 {
			return limiter.MaxExact
		}
		drain := float64(l.Burst) / float64(l.Count) * float64(l.Window)
		return int64(min(2*drain+1, float64(limiter.MaxExact-l.Window))) + l.Window
	}
	return l.Window
}
