package decide

import (
	"context"
	"errors"
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
	// Life is for how many ms from Sent the lump may be spent, so that its units count the same as if they were charged
	// when they are spent; 0 for a bucket that drains.
	Life int64
	// Sent is copied from the LumpWant with which the units were charged.
	Sent int64
	// RetryAfter is the wait after a denial, ms.
	RetryAfter int64

	ask limiter.Ask
	id  string
}

// LumpWant describes the lump that TakeLump should charge.
type LumpWant struct {
	// Units are wanted, or all that are left if these are at least Least.
	Units, Least int64
	// Free units of the capacity stay free, of a bucket that drains.
	Free int64
	// Keep is for how many ms the record of the lump is kept.
	Keep int64
	// Sent is the present time of the caller, ms.
	Sent int64
	// Doubt is what the last TakeLump for the same holder has returned.
	Doubt *LumpDoubt
}

// LumpDoubt is a take of the store whose answer was lost, so that its units may be charged.
type LumpDoubt struct {
	ask  limiter.Ask
	id   string
	sent int64
}

// repeats reports whether the take can be repeated as a take of ask, whose units all count in the same way.
func (d *LumpDoubt) repeats(ask *limiter.Ask, sent int64) bool {
	return d != nil && d.ask.Key == ask.Key && d.ask.Limit == ask.Limit && sent-d.sent < limiter.ReplayWindow/2
}

// TakeLump charges a lump. No fail mode decides: an error means that there is no lump. Its units may still be charged;
// the doubt represents them: the next TakeLump gets them, or gives them back if the rule has changed or they are old.
func (c *Checker) TakeLump(ctx context.Context, r *LumpRule, w *LumpWant) (Lump, *LumpDoubt, error) {
	ctx, release := c.lumpContext(ctx)
	defer release()
	ask, least := limiter.Ask{Key: r.Key, Limit: r.Limit, Weight: w.Units, Former: r.former}, w.Least
	instant := r.Limit.Algorithm.Traits().Instant
	if instant { // its state drops units above the burst, so it is charged for a moment
		ask.Weight, least = w.Units+w.Free, least+w.Free
	} else {
		ask.Limit.Burst -= min(w.Free, ask.Limit.Burst)
	}
	take := &LumpDoubt{ask: ask, id: randomID(), sent: w.Sent}
	switch {
	case w.Doubt.repeats(&ask, w.Sent):
		take = w.Doubt
	case w.Doubt != nil:
		if err := c.GiveBackDoubt(ctx, w.Doubt); err != nil {
			return Lump{}, w.Doubt, err
		}
	}
	res, doubt, err := c.takeLump(ctx, take, w)
	if err == nil && !res.Allowed && res.Limits[0].Remaining >= least {
		ask.Weight = min(res.Limits[0].Remaining, ask.Weight)
		take = &LumpDoubt{ask: ask, id: randomID(), sent: w.Sent}
		res, doubt, err = c.takeLump(ctx, take, w)
	}
	if err != nil {
		return Lump{}, doubt, err
	}
	d := &res.Limits[0]
	if !res.Allowed {
		return Lump{RetryAfter: d.RetryAfter}, nil, nil
	}
	l := Lump{Units: take.ask.Weight, Sent: w.Sent, ask: limiter.Ask{Key: r.Key, Limit: r.Limit}, id: take.id}
	if res.Replayed {
		l.Sent = take.sent
		c.observeUnits(rules.ModeEnforce, OutcomeReplayed, ByStore, l.Units)
	} else {
		c.observeUnits(rules.ModeEnforce, OutcomeAdmitted, ByStore, l.Units)
	}
	if !r.Drains() {
		l.Life, _ = r.Limit.LeaseLife(d)
	}
	if instant && w.Free > 0 {
		l.Units -= w.Free
		_ = c.settleLump(ctx, &l, l.Units) // the units stay charged if that fails
		l.id = ""
	}
	return l, nil, nil
}

// takeLump takes the units of a lump from the store. With an error, it returns the take that may have been charged.
func (c *Checker) takeLump(ctx context.Context, take *LumpDoubt, w *LumpWant) (limiter.Result, *LumpDoubt, error) {
	req := limiter.Request{Op: limiter.OpTake, ID: take.id, Keep: w.Keep, Asks: []limiter.Ask{take.ask}}
	var res limiter.Result
	err := c.opt.Store.Do(ctx, &req, &res)
	if err == nil {
		return res, nil, nil
	}
	c.observeFailure(err)
	if take == w.Doubt { // it was counted
		return res, take, err
	}
	var failed *limiter.StoreError
	if !errors.As(err, &failed) || !failed.Unknown {
		return res, nil, err
	}
	c.observeDoubt(rules.ModeEnforce, req.Op, []plannedLimit{{weight: take.ask.Weight}}, err)
	return res, take, err
}

// GiveBackDoubt gives back what a doubt has charged, if it has.
func (c *Checker) GiveBackDoubt(ctx context.Context, d *LumpDoubt) error {
	ctx, release := c.lumpContext(ctx)
	defer release()
	return c.settleLump(ctx, &Lump{ask: limiter.Ask{Key: d.ask.Key, Limit: d.ask.Limit}, id: d.id}, 0)
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
