package decide

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// Regions says what a check of a limit that spans regions must know of the other regions. It must not block.
type Regions interface {
	// CutOff reports whether a region is not heard of any more.
	CutOff() bool
	// Part returns what this region may spend of a limit if it is cut off and every region has an equal part, and whether
	// that is what it may spend together with others, which tell each other what they spend.
	Part(key limiter.Key, l limiter.Limit) (part limiter.Limit, together bool)
	// Share returns the part of a limit that this region may spend by itself, and until when that is so, ms on the clock
	// of the counter store, or 0 for always. units are what is asked for.
	Share(rule int64, key limiter.Key, l limiter.Limit, units int64) (limiter.Limit, int64)
	// HighWater is the high-water mark that covers the buckets of a rule with a limit.
	HighWater(rule int64, l limiter.Limit) *limiter.HighWater
	// ShareInterval is the time after which a region that is asked for more may have more.
	ShareInterval() time.Duration
}

// DegradedRegion is what answers say of a limit that spans regions while another region is not heard of. Unlike a
// fail mode it says nothing about the counter store, which has decided.
const DegradedRegion = "region"

// ByFailMode reports whether Degraded of an answer or a limit is a fail mode of the counter store.
func ByFailMode(degraded string) bool { return degraded != "" && degraded != DegradedRegion }

// plannedSpan is what regions make of a limit.
type plannedSpan struct {
	spans  bool // the limit spans regions
	guard  limiter.GuardMode
	cutOff bool // another region is not heard of, and the rule's cut_off decides what this one may spend
	shut   bool // cut off, and the rule says that nothing may be spent
	// Of a limit that is divided among regions, always or while this one is cut off: all of it, until when limit is the
	// part of this one (0 for always), and after how long, ms, that may be more.
	whole          limiter.Limit
	notAfter, soon int64
	highWater      *limiter.HighWater
}

// span makes a planned limit one that spans regions, and that holds the region to its share of what is left. While
// another region is not heard of, the rule's cut_off says instead what this one may spend: an equal part of the limit,
// so that all regions together stay within it; all of it; or nothing. Regions that have their parts together are held
// to shares of that.
func (p *plannedLimit) span(regions Regions, op limiter.Op) {
	p.spans = true
	if regions == nil || !regions.CutOff() {
		p.guard = limiter.GuardOpen
		if c := p.rule.Rule.Cold; c != nil && *c == rules.ColdShare {
			p.guard = limiter.GuardShare
		}
		return
	}
	p.cutOff = true
	cutOff := rules.CutOffShare
	if r := &p.rule.Rule; r.CutOff != nil {
		cutOff = *r.CutOff
	}
	switch cutOff {
	case rules.CutOffShare:
		p.whole, p.soon = p.limit, regions.ShareInterval().Milliseconds()
		together := false
		if p.limit, together = regions.Part(p.key, p.limit); together {
			p.guard = limiter.GuardShare
		}
	case rules.CutOffClosed:
		p.shut = p.weight > 0 && (op == limiter.OpTake || op == limiter.OpPeek)
	}
}

// shutLimit is the limit that the store enforces where nothing may be spent.
func shutLimit(l limiter.Limit) limiter.Limit {
	l.Count, l.Burst = 0, 0
	return l
}

// shutOff turns the decision on a limit that nothing may be spent of into that of a closed fail mode: without
// figures.
func (p *plannedLimit) shutOff(la *LimitAnswer) {
	if p.shut {
		la.Decision, la.Known = limiter.Decision{Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}, false
	}
}

// SpentByRegion returns what each region has spent in a bucket that spans regions, by name: this one, and each other
// one as far as it was heard of. It serves people. It returns nil without regions, and if the store does not answer.
func (c *Checker) SpentByRegion(ctx context.Context, key limiter.Key, l limiter.Limit) []limiter.RegionUnits {
	if c.opt.Regions == nil || c.opt.Spent == nil {
		return nil
	}
	if c.opt.Timeout > 0 {
		b := c.within(ctx, c.opt.Timeout)
		defer b.release()
		ctx = b
	}
	spent, err := c.opt.Spent.Spent(ctx, key)
	if err != nil {
		return nil
	}
	out := []limiter.RegionUnits{{Region: c.opt.Region, Units: spent.Own.Counting(l, spent.Now)}}
	for i := range spent.Heard {
		out = append(out, limiter.RegionUnits{Region: spent.Heard[i].Region,
			Units: spent.Heard[i].Sums.Counting(l, spent.Now)})
	}
	slices.SortFunc(out, func(a, b limiter.RegionUnits) int { return cmp.Compare(a.Region, b.Region) })
	return out
}

// divide makes a planned limit the part of it that this region may spend by itself. Units that are taken are not
// taken once the part may be another one; what is given back always is.
func (w *work) divide(l *plannedLimit, op limiter.Op) {
	if w.regions == nil {
		return
	}
	units, takes := int64(0), op == limiter.OpTake || op == limiter.OpPeek
	if op == limiter.OpTake || op == limiter.OpCharge {
		units = l.weight
	}
	l.whole, l.soon = l.limit, w.regions.ShareInterval().Milliseconds()
	l.highWater = w.regions.HighWater(l.rule.Rule.ID, l.limit)
	if l.limit, l.notAfter = w.regions.Share(l.rule.Rule.ID, l.key, l.limit, units); !takes {
		l.notAfter = 0
	}
}

// patient corrects the decision on a limit that is divided: what the part of this region will never admit can be
// admitted when it has more, or is no longer cut off.
func (p *plannedLimit) patient(la *LimitAnswer) {
	if d := &la.Decision; la.Known && p.soon > 0 && !d.Allowed && d.RetryAfter == limiter.Never &&
		p.weight <= p.whole.Capacity() {
		d.RetryAfter = p.soon
	}
}
