package share

import (
	"slices"

	"sluice/limiter"
)

// plan is what a region is to lend of a rule, and to borrow from each other one, in units.
type plan struct {
	lends   int64
	borrows map[string]int64
}

// plan divides a limit among the regions that report. Each comes to the same plan if it has received the same. If
// it has not, somebody asks for what is not lent.
func (s *State) plan(c *Config, id int64, sp Spec, now int64) plan {
	var names []string
	var demands, own []int64
	total, self := int64(0), -1
	for i, name := range c.Regions {
		demand, ok := s.Demand[id], true
		if name == c.Self {
			self = len(names)
		} else {
			demand, ok = s.Asked(c, name, id, now)
		}
		if !ok {
			continue
		}
		units := Spans{Segment(i, len(c.Regions))}.Units(sp.Units)
		names, demands, own = append(names, name), append(demands, demand), append(own, units)
		total += units
	}
	targets := divide(c, total, sp.Units, demands)
	out := plan{borrows: map[string]int64{}}
	// The first that has too much lends to the first that has too little, and so on.
	lender, spare := -1, int64(0)
	for borrower := range names {
		for lacks := targets[borrower] - own[borrower]; lacks > 0; {
			for spare == 0 && lender+1 < len(names) {
				lender++
				spare = max(0, own[lender]-max(targets[lender], c.least(sp.Units)))
			}
			if spare == 0 {
				break
			}
			n := min(lacks, spare)
			lacks, spare = lacks-n, spare-n
			switch self {
			case lender:
				out.lends += n
			case borrower:
				out.borrows[names[lender]] += n
			}
		}
	}
	return out
}

// divide divides units by demand. Units that no demand needs are divided in the same way, so that a region whose demand
// grows has room.
func divide(c *Config, total, units int64, demands []int64) []int64 {
	if c.small(units) {
		if slices.Max(demands) == 0 {
			return make([]int64, len(demands)) // nobody wants it: all keep what they have
		}
		busiest := make([]int64, len(demands))
		busiest[slices.Index(demands, slices.Max(demands))] = total
		return busiest
	}
	targets := limiter.Divide(total, c.least(units), demands)
	left, sum := total, int64(0)
	for i, t := range targets {
		left, sum = left-t, sum+demands[i]
	}
	if sum > 0 && left > 0 {
		for i := range targets {
			targets[i] += int64(float64(left) * (float64(demands[i]) / float64(sum)))
		}
	}
	return targets
}

// Asked returns the demand on a region, and whether its report is recent.
func (s *State) Asked(c *Config, region string, id, now int64) (int64, bool) {
	h := s.Received[region]
	if h == nil || now-h.At > missed*c.Interval+c.Interval/2 || h.At-now > c.Skew {
		return 0, false
	}
	return h.Demand[id], true
}

// withhold decides what this region keeps for itself.
func (s *State) withhold(c *Config, r *Rule, sp Spec, lends, now int64) {
	own := c.own()
	keep := own[0].To
	if lends > 0 {
		keep = c.keeps(own[0], sp.Units, max(own.Units(sp.Units)-lends, c.least(sp.Units)))
	}
	change, steady := keep-r.Keep, own.Size()/steadyOf
	if change > steady || change < -steady || keep == own[0].To || sp.Units < 2*steadyOf*int64(len(c.Regions)) {
		r.Keep = keep
	}
	wanted := Spans{{r.Keep, own[0].To}}.Plus(nil).Minus(r.lent())
	held := spansOf(r.Withheld)
	r.Withheld = without(r.Withheld, held.Minus(wanted))
	if more := wanted.Minus(held); len(more) > 0 {
		r.Withheld = append(r.Withheld, Hold{Spans: more, Since: now, Life: sp.Life})
	}
}

// leave gives back what this region does not want to borrow any more.
func (r *Rule) leave(c *Config, sp Spec, p *plan, now int64) {
	for name, b := range r.Borrowed {
		want := partsOf(p.borrows[name], sp.Units)
		back := without(b.Leaving, b.used().Plus(nil)) // what it could use again
		switch used := b.used().Size(); {
		case used-want > c.own().Size()/steadyOf || want == 0 && used > 0:
			b.leave(b.used().Last(used-want), sp, now)
		case used < want && len(back) > 0 && now < b.Until:
			again := spansOf(back).And(b.Granted).Last(want - used)
			b.Leaving = without(b.Leaving, again)
		}
	}
}

// partsOf is how many parts some units are, rounded up.
func partsOf(n, units int64) int64 {
	if n == 0 || units == 0 {
		return 0
	}
	return min(Whole, position(n, units)+1)
}
