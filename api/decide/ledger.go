package decide

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// maxDebts bounds the buckets of which a Ledger remembers what they owe.
const maxDebts = 100_000

// LedgerOptions configure a Ledger.
type LedgerOptions struct {
	// Local is this node's own store, which decides for fail mode local.
	// Required, and the same as the Checker's.
	Local limiter.Store
	// Nodes is the number of live nodes, each of which enforces its share of a
	// limit. Nil: this one only.
	Nodes func() int
	// Now is the wall clock, the same as the local store's. Required.
	Now func() time.Time
	// MaxDebts bounds the buckets that wait to be reconciled, 100,000 if 0.
	MaxDebts int
}

// Ledger makes fail mode local fair. While the counter store decides, what it
// admits under such limits is also charged in this node's memory, so that an
// outage does not begin with empty buckets. During an outage each node enforces
// limit.Share of the live nodes and remembers what it admits. Afterwards Reconcile
// charges that to the counter store, as far as it still counts.
//
// With 4 nodes and 100 units a minute each node enforces 25. If a user had spent
// 20 on this node when the counter store failed, 5 are left here; the 5 are
// charged to the counter store when it is back within the minute.
//
// A Ledger is safe for concurrent use.
type Ledger struct {
	opt  LedgerOptions
	wake chan struct{}

	mu    sync.Mutex
	debts map[limiter.Key]*debt
	stats LedgerStats
}

// LedgerStats count units of limits, since the start. Spent is always the sum
// of the other five.
type LedgerStats struct {
	// Spent is what fail mode local admitted.
	Spent int64
	// Reconciled has been charged to the counter store afterwards.
	Reconciled int64
	// Expired had drained or left its window by then.
	Expired int64
	// Doubtful may have been spent in the counter store, whose answer was lost,
	// so it is not charged again.
	Doubtful int64
	// Dropped could not be remembered or not be charged.
	Dropped int64
	// Pending is what the counter store does not know yet: the gap.
	Pending int64
}

// debt is what one bucket has admitted while the counter store was unavailable, in a
// state of its own, so that it drains and expires as its algorithm says.
type debt struct {
	key   limiter.Key
	limit limiter.Limit // as the counter store enforces it
	share limiter.Limit
	state limiter.State
	units int64 // ever added

	// Once sent: the units charged, the id that makes a repeat safe, when it was
	// first sent, and whether it may have been charged though nobody said so.
	held    int64
	id      string
	since   time.Time
	doubted bool
}

// NewLedger makes a Ledger. It fails only if a required option is missing.
func NewLedger(opt LedgerOptions) (*Ledger, error) {
	if opt.Local == nil || opt.Now == nil {
		return nil, errors.New("ledger: Local and Now are required")
	}
	if opt.Nodes == nil {
		opt.Nodes = func() int { return 1 }
	}
	if opt.MaxDebts <= 0 {
		opt.MaxDebts = maxDebts
	}
	return &Ledger{opt: opt, wake: make(chan struct{}, 1), debts: map[limiter.Key]*debt{}}, nil
}

// Stats gives the counts of this moment.
func (l *Ledger) Stats() LedgerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// share is this node's part of a limit.
func (l *Ledger) share(limit limiter.Limit) limiter.Limit {
	if l == nil {
		return limit
	}
	return limit.Share(int64(l.opt.Nodes()))
}

// mirror repeats in memory what the counter store has done to limits with fail
// mode local. It cannot fail in a way that matters: at worst an outage begins
// with an emptier bucket.
func (l *Ledger) mirror(limits []plannedLimit, call *limiter.Call) {
	if l == nil || call.Result.Replayed {
		return
	}
	for i := range limits {
		if limits[i].failMode == rules.FailLocal {
			l.mirrorOne(&limits[i], call, &call.Result.Limits[i])
		}
	}
}

func (l *Ledger) mirrorOne(p *plannedLimit, call *limiter.Call, d *limiter.Decision) {
	req := limiter.Request{Op: call.Request.Op,
		Asks: []limiter.Ask{{Key: p.key, Limit: l.share(p.storeLimit()), Weight: p.weight}}}
	leases := p.limit.Algorithm.Traits().Slots
	switch req.Op {
	case limiter.OpTake:
		if !call.Result.Allowed || p.spends(req.Op) == 0 {
			return
		}
		req.Op = limiter.OpCharge
		if leases { // held whatever the share says
			req.Op, req.ID = limiter.OpTake, call.Request.ID
			req.Asks[0].Limit.Count = limiter.MaxSlots
		}
	case limiter.OpRefund:
		if d.Refunded == 0 || leases {
			return
		}
		req.Asks[0].Weight = d.Refunded
	case limiter.OpRelease, limiter.OpRenew:
		req.ID = call.Request.ID
	case limiter.OpPeek:
		return
	}
	var res limiter.Result
	_ = l.opt.Local.Do(context.Background(), &req, &res)
}

// mirrorLeases repeats in memory what the counter store did to leases.
func (l *Ledger) mirrorLeases(calls []limiter.Call) {
	if l == nil {
		return
	}
	for i := range calls {
		req := calls[i].Request
		var res limiter.Result
		_ = l.opt.Local.Do(context.Background(), &req, &res)
	}
}

// owe remembers what one limit admitted at time now (ms) without the counter
// store. unknown: the store may have spent it all the same. Leases are not
// remembered: their holders renew or release them where they were taken.
func (l *Ledger) owe(ask, share limiter.Ask, now int64, unknown bool) {
	if l == nil || ask.Weight == 0 || ask.Limit.Algorithm.Traits().Slots {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Spent += ask.Weight
	d := l.debts[ask.Key]
	switch {
	case unknown:
		l.stats.Doubtful += ask.Weight
		return
	case d == nil && len(l.debts) >= l.opt.MaxDebts:
		l.stats.Dropped += ask.Weight
		return
	case d == nil:
		d = &debt{key: ask.Key}
		l.debts[ask.Key] = d
	}
	d.limit, d.share = ask.Limit, share.Limit
	d.add(ask.Weight, now)
	l.stats.Pending += ask.Weight
	select {
	case l.wake <- struct{}{}:
	default: // Reconcile knows already
	}
}

// add charges w to the debt's own state.
func (d *debt) add(w, now int64) {
	d.units += w
	d.decide(limiter.OpCharge, w, now)
}

// due is how many units of it still count.
func (d *debt) due(now int64) int64 {
	dec := d.decide(limiter.OpPeek, 0, now)
	return min(dec.Limit-min(dec.Limit, dec.Remaining), d.units)
}

func (d *debt) decide(op limiter.Op, w, now int64) limiter.Decision {
	var changed [1]bool
	var out [1]limiter.Decision
	var charged [1]limiter.Charged
	asks := [1]limiter.Ask{{Key: d.key, Limit: d.share, Weight: w}}
	limiter.Decide(op, asks[:], "", []*limiter.State{&d.state}, now, changed[:], out[:], charged[:])
	return out[0]
}
