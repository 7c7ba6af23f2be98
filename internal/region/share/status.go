package share

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/region"
)

// Failure returns why a region has not accepted the last message of this node, "" if it has, and since when that is so.
func (x *Shares) Failure(name string) (why string, since time.Time) {
	i := slices.IndexFunc(x.peers, func(p *region.Link) bool { return p.Name == name })
	if i < 0 {
		return "", time.Time{}
	}
	since, _, err := x.peers[i].Failure()
	if err != nil {
		why = err.Error()
	}
	return why, since
}

// mostShown is the number of rules in an overview: the oldest ones.
const mostShown = 100

// Overview returns what this node knows.
func (x *Shares) Overview() region.Shares {
	o := region.Shares{IntervalMS: x.opt.Interval.Milliseconds(), Failing: x.failing.Load(), Losses: x.lost.Load(),
		Rules: []region.RuleShares{}}
	t, set := x.inForce.Load(), x.opt.Sets.Load()
	if t == nil || set == nil {
		return o
	}
	o.Lost = t.state.Lost != nil
	now := t.at + x.opt.Now().Sub(t.read).Milliseconds()
	specs := specsOf(set)
	for _, id := range slices.Sorted(maps.Keys(specs)) { // always the same ones, which metrics need
		c, sp := set.Get(id), specs[id]
		if c == nil || len(o.Rules) == mostShown {
			continue
		}
		r := region.RuleShares{Rule: c.Rule.Name, Limit: sp.Units}
		use, until := x.cfg.Least(sp.Units), int64(0)
		if p, ok := t.rules[id]; ok {
			use, until = p.use, min(p.until, t.until)
		}
		if now >= until {
			use = x.cfg.Least(sp.Units)
		}
		r.Share = use.Units(sp.Units)
		known := t.state.Rules[id]
		r.Unused = known.Idle().Units(sp.Units)
		for i, name := range x.cfg.Regions {
			out := region.RegionShare{Region: name, Own: Spans{Segment(i, len(x.cfg.Regions))}.Units(sp.Units)}
			if name == x.cfg.Self {
				out.Asked = new(t.state.Demand[id])
			} else {
				if asked, known := t.state.Asked(&x.cfg, name, id, now); known {
					out.Asked = &asked
				}
				lent, borrowed, until := known.With(name, now)
				out.Lent, out.Borrowed = lent.Units(sp.Units), borrowed.Units(sp.Units)
				if until > 0 {
					out.Until = new(time.UnixMilli(until).UTC())
				}
			}
			r.Regions = append(r.Regions, out)
		}
		o.Rules = append(o.Rules, r)
	}
	slices.SortFunc(o.Rules, func(a, b region.RuleShares) int { return strings.Compare(a.Rule, b.Rule) })
	return o
}
