package decide

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

// maxDebts bounds the buckets whose debts a Ledger records.
const maxDebts = 100_000

// LedgerOptions configure a Ledger.
type LedgerOptions struct {
	// Local is this node's own store, which decides for fail mode local. Required. It is the same store as
	// Checker.Local.
	Local limiter.Store
	// Nodes is the number of live nodes, each of which enforces its share of a limit. If nil,
	// this node is the only one.
	Nodes func() int
	// Now is the wall clock, the same as that of the local store. Required.
	Now func() time.Time
	// MaxDebts is the largest number of buckets that wait to be reconciled, 100,000 if 0.
	MaxDebts int
}

// Ledger makes fail mode local fair. While the counter store decides, the units that it admits
// under such limits are also charged in this node's memory, so that an outage does not begin
// with empty buckets. During an outage each node enforces its limit.Share among the live nodes
// and records what it admits. After the outage Reconcile charges these units to the counter
// store, as far as they still count.
//
// With 4 nodes and 100 units per minute each node enforces 25. If a user had spent 20 units on
// this node when the counter store failed, 5 remain here. If the user spends them, they are
// charged to the counter store as soon as it recovers within the minute.
//
// A Ledger is safe for concurrent use.
type Ledger struct {
	opt  LedgerOptions
	wake chan struct{}

	mu    sync.Mutex
	debts map[limiter.Key]*debt
	stats LedgerStats
}

// LedgerStats count units of limits since the start. Spent is always the sum of the other
// five.
type LedgerStats struct {
	// Spent is what fail mode local admitted.
	Spent int64
	// Reconciled was charged to the counter store afterwards.
	Reconciled int64
	// Expired had drained or left its window before that.
	Expired int64
	// Doubtful may have been spent in the counter store, whose response was lost, so it is
	// not charged again.
	Doubtful int64
	// Dropped could not be recorded or charged.
	Dropped int64
	// Pending is not charged to the counter store yet.
	Pending int64
}

// debt is the units that one bucket has admitted while the counter store was unavailable. They are charged to a
// separate state, in which they drain and expire as in the algorithm.
type debt struct {
	key   limiter.Key
	limit limiter.Limit // as the counter store enforces it
	share limiter.Limit
	spans bool // limiter.Ask.Spans
	high  *limiter.HighWater
	state limiter.State
	units int64 // ever added

	// After it was sent: the units to charge, the id that makes a repeat safe, the time of the
	// first attempt, and whether it may have been charged although the response was lost.
	held    int64
	id      string
	since   time.Time
	doubted bool
}

// NewLedger returns a Ledger. It fails only if a required option is missing.
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

// Stats returns the current counts.
func (l *Ledger) Stats() LedgerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// share returns this node's part of a limit.
func (l *Ledger) share(limit limiter.Limit) limiter.Limit {
	if l == nil {
		return limit
	}
	return limit.Share(int64(l.opt.Nodes()))
}

// shareOf is share for a limit that may be nil.
func (l *Ledger) shareOf(limit *limiter.Limit) *limiter.Limit {
	if limit == nil {
		return nil
	}
	share := l.share(*limit)
	return &share
}

// mirror repeats in memory the operations of the counter store on limits with fail mode local. Its failures do not
// matter: at worst an outage begins with an emptier bucket.
func (l *Ledger) mirror(limits []plannedLimit, call *limiter.Call) {
	if l == nil || call.Result.Replayed {
		return
	}
	for i := range limits {
		if p := &limits[i]; p.failMode == rules.FailLocal && !p.lifts {
			l.mirrorOne(p, call, &call.Result.Limits[p.ask])
		}
	}
}

func (l *Ledger) mirrorOne(p *plannedLimit, call *limiter.Call, d *limiter.Decision) {
	limit := p.storeLimit()
	if part := call.Result.Part(p.ask); part != nil {
		limit = part.Asked.Limit
	}
	req := limiter.Request{Op: call.Request.Op,
		Asks: []limiter.Ask{{Key: p.key, Limit: l.share(limit), Weight: p.weight, Former: l.shareOf(p.former)}}}
	leases := p.limit.Algorithm.Traits().Slots
	switch req.Op {
	case limiter.OpTake:
		if !call.Result.Allowed || p.spends(req.Op) == 0 {
			return
		}
		req.Op = limiter.OpCharge
		if leases { // held even if the share is smaller
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

// owe records what one limit admitted at time now (ms) without the counter store. unknown is
// true if the store may have spent it nevertheless. Leases are not recorded: their holders
// renew or release them where they were taken.
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
	d.limit, d.share, d.spans, d.high = ask.Limit, share.Limit, ask.Spans, ask.HighWater
	d.add(ask.Weight, now)
	l.stats.Pending += ask.Weight
	select {
	case l.wake <- struct{}{}:
	default: // Reconcile is awake already
	}
}

// add charges w units to the debt's own state.
func (d *debt) add(w, now int64) {
	d.units += w
	d.decide(limiter.OpCharge, d.share, w, now)
}

// due returns the number of its units that still count.
func (d *debt) due(now int64) int64 {
	// Reports may have charged more than the share.
	wide := d.share.Widen(max(0, min(d.units, d.share.MaxCapacity()-d.share.Capacity())))
	dec := d.decide(limiter.OpPeek, wide, 0, now)
	return min(dec.Limit-min(dec.Limit, dec.Remaining), d.units)
}

func (d *debt) decide(op limiter.Op, l limiter.Limit, w, now int64) limiter.Decision {
	var changed [1]bool
	var out [1]limiter.Decision
	var charged [1]limiter.Charged
	asks := [1]limiter.Ask{{Key: d.key, Limit: l, Weight: w}}
	limiter.Decide(op, asks[:], "", []*limiter.State{&d.state}, now, changed[:], out[:], charged[:])
	return out[0]
}
