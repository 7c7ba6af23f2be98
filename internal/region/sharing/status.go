package sharing

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/region/share"
)

// Overview is what this node knows of the shares.
type Overview struct {
	Interval time.Duration
	// Lost: it is not known what this region has lent, so that it uses the least part. Losses is how often that was so.
	Lost   bool
	Losses int64
	// Failing: the state cannot be read or kept.
	Failing bool
	Rules   []RuleShares
}

// RuleShares are those of one rule, in units of its limit.
type RuleShares struct {
	Rule string
	// Limit is all that is divided, Share what this region may spend now, and Unused what nobody may spend: it waits to
	// be lent or to be given back.
	Limit, Share, Unused int64
	Regions              []RegionShare
}

// RegionShare is one region and one rule, as this region knows it.
type RegionShare struct {
	Region string
	// Own is its equal part. Asked is its demand within a window; Heard is false if its last report is too old.
	Own, Asked int64
	Heard      bool
	// Lent is what it has of this region's part, and Borrowed what this region has of its part, both until Until, if
	// that is not zero.
	Lent, Borrowed int64
	Until          time.Time
}

// Failure returns why a region has not taken the last message of this node, "" if it has, and since when that is so.
func (x *Shares) Failure(region string) (why string, since time.Time) {
	i := slices.IndexFunc(x.peers, func(p *peer) bool { return p.Name == region })
	if i < 0 {
		return "", time.Time{}
	}
	p := x.peers[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure, p.since
}

// mostShown is the number of rules in an overview: the oldest ones.
const mostShown = 100

// Overview returns what this node knows.
func (x *Shares) Overview() Overview {
	o := Overview{Interval: x.opt.Interval, Failing: x.failing.Load(), Losses: x.lost.Load()}
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
		r := RuleShares{Rule: c.Rule.Name, Limit: sp.Units}
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
			out := RegionShare{Region: name, Own: share.Spans{share.Segment(i, len(x.cfg.Regions))}.Units(sp.Units)}
			if name == x.cfg.Self {
				out.Asked, out.Heard = t.state.Demand[id], true
			} else {
				out.Asked, out.Heard = t.state.Asked(&x.cfg, name, id, now)
				lent, borrowed, until := known.With(name, now)
				out.Lent, out.Borrowed = lent.Units(sp.Units), borrowed.Units(sp.Units)
				if until > 0 {
					out.Until = time.UnixMilli(until)
				}
			}
			r.Regions = append(r.Regions, out)
		}
		o.Rules = append(o.Rules, r)
	}
	slices.SortFunc(o.Rules, func(a, b RuleShares) int { return strings.Compare(a.Rule, b.Rule) })
	return o
}
