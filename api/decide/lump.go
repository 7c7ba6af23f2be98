package decide

import (
	"context"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// A lump is units of one bucket that are charged before a proxy may spend them. Package quota of api/envoy hands lumps
// out, and has the argument why they never exceed a limit.

const (
	// lumpTimeout bounds a call of the store for a lump, for which no request waits.
	lumpTimeout = time.Second
	// Windows, or their sub-windows, and the seconds of rate in the capacity of draining buckets, at least. One second of
	// each window is lost, because proxies know whole seconds only.
	minLumpWindow, minLeasedLumpWindow = 60_000, 20_000
	minLumpCapacity                    = 30_000
)

// LumpRule is what a bucket's rule says of lumps.
type LumpRule struct {
	// Refused is why there are none, a word of LumpRefusals; "" if there are.
	Refused string
	// Unlimited: every request may pass.
	Unlimited bool
	Domain    string
	Entries   []entries.Entry
	Rule      string
	Key       limiter.Key
	Limit     limiter.Limit
	former    *limiter.Limit
}

// Why a bucket has no lumps.
const (
	lumpNoRule    = "no_rule"
	lumpBlocked   = "blocked"
	lumpAlgorithm = "algorithm"
	lumpWindow    = "window"
	lumpCapacity  = "capacity"
	lumpSpecial   = "rule" // what requires to see each request, or spans regions
)

// LumpRefusals are all values of LumpRule.Refused.
func LumpRefusals() []string {
	return []string{lumpNoRule, lumpBlocked, lumpAlgorithm, lumpWindow, lumpCapacity, lumpSpecial}
}

// LumpRule returns the rule of a bucket: of the domain, with a descriptor of the bucket's keys in any order. The error
// is ErrNoSet.
func (c *Checker) LumpRule(domain string, bucket map[string]string) (LumpRule, error) {
	set := c.opt.Sets.Load()
	if set == nil {
		return LumpRule{}, ErrNoSet
	}
	m, list, ok := set.MatchBucket(domain, bucket, c.opt.Now())
	if !ok {
		return LumpRule{Refused: lumpNoRule}, nil
	}
	r := LumpRule{Domain: domain, Entries: list, Rule: m.Rule.Rule.Name, Key: m.Key, Limit: m.Limit, former: formerOf(&m)}
	if r.Unlimited = m.Unlimited() || m.Rule.Shadow; !r.Unlimited {
		r.Refused = refuseLumps(&m)
	}
	return r, nil
}

// refuseLumps returns why a match has no lumps, "" if it has.
func refuseLumps(m *match.Match) string {
	l, r := &m.Limit, m.Rule
	switch {
	case m.Override.Blocked:
		return lumpBlocked
	case !l.Algorithm.Traits().Divisible:
		return lumpAlgorithm
	case r.SoftPercent > 0 || r.ElasticPercent > 0 || r.Pool != nil || r.Ban != nil || r.ChargeReport ||
		r.Hot == limiter.HotSharded || r.Exact || r.SpanOf != 0:
		return lumpSpecial
	case l.Algorithm.Traits().Decay == limiter.DecayDrain:
		if float64(l.Burst)*float64(l.Window) < minLumpCapacity*float64(l.Count) || l.Count == 0 {
			return lumpCapacity
		}
		return ""
	}
	least := int64(minLumpWindow)
	if r.Hot == limiter.HotLeased {
		least = minLeasedLumpWindow
	}
	if l.Window/max(1, l.Buckets) < least {
		return lumpWindow
	}
	return ""
}

// Drains reports whether the bucket drains, so that its units do not count until an instant.
func (r *LumpRule) Drains() bool { return r.Limit.Algorithm.Traits().Decay == limiter.DecayDrain }

// Ends reports whether all units of a window end with it.
func (r *LumpRule) Ends() bool { return r.Limit.Algorithm.Traits().Decay == limiter.DecayAtOnce }

// Lump is units that were charged, or a denial.
type Lump struct {
	// Units is 0 if there were too few.
	Units int64
	// Life is for how many ms from the moment of sending the lump may be spent, so that its units count the same as if
	// they were charged when they are spent; 0 for a bucket that drains.
	Life int64
	// RetryAfter is that of a denial, ms.
	RetryAfter int64

	ask limiter.Ask
	id  string
}

// TakeLump charges want units, or all that are left if these are at least least. Of a bucket that drains, free units
// of the capacity stay free. Its record is kept for keep ms. No fail mode decides: an error means that there is no
// lump, although its units may be charged.
func (c *Checker) TakeLump(ctx context.Context, r *LumpRule, want, least, free, keep int64) (Lump, error) {
	ctx, release := c.lumpContext(ctx)
	defer release()
	ask := limiter.Ask{Key: r.Key, Limit: r.Limit, Weight: want, Former: r.former}
	instant := r.Limit.Algorithm.Traits().Instant
	if instant { // its state forgets what is above the burst, so it is charged for a moment
		ask.Weight, least = want+free, least+free
	} else {
		ask.Limit.Burst -= min(free, ask.Limit.Burst)
	}
	req := limiter.Request{Op: limiter.OpTake, ID: randomID(), Unrepeated: true, Keep: keep, Asks: []limiter.Ask{ask}}
	var res limiter.Result
	err := c.opt.Store.Do(ctx, &req, &res)
	if err == nil && !res.Allowed && res.Limits[0].Remaining >= least {
		req.ID, req.Asks[0].Weight = randomID(), min(res.Limits[0].Remaining, ask.Weight)
		err = c.opt.Store.Do(ctx, &req, &res)
	}
	if err != nil {
		c.observeFailure(err)
		c.observeDoubt(rules.ModeEnforce, req.Op, []plannedLimit{{weight: req.Asks[0].Weight}}, err)
		return Lump{}, err
	}
	d := &res.Limits[0]
	if !res.Allowed {
		return Lump{RetryAfter: d.RetryAfter}, nil
	}
	l := Lump{Units: req.Asks[0].Weight, ask: limiter.Ask{Key: r.Key, Limit: r.Limit}, id: req.ID}
	c.observeUnits(rules.ModeEnforce, OutcomeAdmitted, ByStore, l.Units)
	if !r.Drains() {
		l.Life, _ = r.Limit.LeaseLife(d)
	}
	if instant && free > 0 {
		l.Units -= free
		_ = c.settleLump(ctx, &l, l.Units) // the units stay charged if that fails
		l.id = ""
	}
	return l, nil
}

// SettleLump makes a lump one of units: all others are given back as far as they still count. Once, and not for gcra
// with free units, which TakeLump has settled.
func (c *Checker) SettleLump(ctx context.Context, l *Lump, units int64) error {
	if l.id == "" {
		return nil
	}
	ctx, release := c.lumpContext(ctx)
	defer release()
	return c.settleLump(ctx, l, units)
}

func (c *Checker) settleLump(ctx context.Context, l *Lump, units int64) error {
	req := limiter.Request{Op: limiter.OpSettle, ID: l.id, Asks: []limiter.Ask{l.ask}}
	req.Asks[0].Weight = units
	var res limiter.Result
	if err := c.opt.Store.Do(ctx, &req, &res); err != nil {
		c.observeFailure(err)
		return err
	}
	if res.Allowed && !res.Replayed {
		c.observeUnits(rules.ModeEnforce, OutcomeRefunded, ByStore, res.Limits[0].Refunded)
	}
	return nil
}

// lumpContext bounds a call of the store.
func (c *Checker) lumpContext(ctx context.Context) (context.Context, func()) {
	b := c.within(WithPatience(ctx, lumpTimeout), lumpTimeout)
	return b, b.release
}
