package sim

import (
	"context"

	"sluice/api/decide"
	"sluice/limiter"
)

// settling is the way by which a node's Ledger charges the shared store with
// what the node admitted alone. It works or it does not: which debt goes first
// is up to the Ledger's map, and must not matter.
type settling struct {
	w       *world
	charged int64 // units that arrived
}

var _ limiter.Store = (*settling)(nil)

// Do sends one charge.
func (s *settling) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	calls := []limiter.Call{{Request: *req}}
	s.DoAll(ctx, calls)
	*res = calls[0].Result
	return calls[0].Err
}

// DoAll sends charges.
func (s *settling) DoAll(_ context.Context, calls []limiter.Call) {
	for i := range calls {
		c := &calls[i]
		if s.w.now < s.w.dark {
			c.Err = &limiter.StoreError{Cause: limiter.CauseConnection, Err: errFault}
			continue
		}
		if c.Err = s.w.blame(s.w.server.apply(&c.Request, &c.Result, true)); c.Err == nil {
			s.charged += units(c.Request.Asks)
		}
	}
}

// reconcileOne has one node's Ledger reconcile once. Its writes reach the replica, so
// that no failover depends on their order.
func (w *world) reconcileOne() error {
	n := pick(w.rng, w.nodes)
	if n.down {
		return nil
	}
	over, cancel := context.WithCancel(context.Background())
	cancel() // a Ledger whose time is over tries exactly once
	way := &settling{w: w}
	before := n.ledger.Stats()
	n.ledger.Reconcile(over, way)
	w.server.model.firm = len(w.server.model.log)
	after := n.ledger.Stats()
	if w.now < w.dark { // which debt it tried first is not ours to know
		w.say("node %d cannot reconcile", n.id)
	} else {
		w.say("node %d reconciles: %+v", n.id, after)
	}
	if got := after.Reconciled - before.Reconciled; got != way.charged {
		return broken("node %d says it reconciled %d units, %d arrived", n.id, got, way.charged)
	}
	if w.now >= w.dark && after.Pending != 0 {
		return broken("node %d still owes %d units after settling", n.id, after.Pending)
	}
	return w.failed
}

// owes checks that a node's Ledger accounts for all that the node admitted alone.
func (n *node) owes() error {
	s := n.ledger.Stats()
	if s.Spent != s.Reconciled+s.Expired+s.Doubtful+s.Dropped+s.Pending {
		return broken("node %d's ledger does not close: %+v", n.id, s)
	}
	if charged := n.bank.books.sums.charged.heard; s.Spent != charged {
		return broken("node %d's ledger remembers %d units, its own store admitted %d", n.id, s.Spent, charged)
	}
	return nil
}

// alive is the number of nodes that are up.
func (w *world) alive() (count int) {
	for _, n := range w.nodes {
		if !n.down {
			count++
		}
	}
	return count
}

// newLedger gives the node what lets local limits start warm, be shared and be
// settled.
func (n *node) newLedger() (*decide.Ledger, error) {
	return decide.NewLedger(decide.LedgerOptions{Local: &n.own, Nodes: n.w.alive, Now: n.time})
}

// mirrored reports whether a request to a node's own store only repeats what
// the shared store did.
func mirrored(req *limiter.Request) bool {
	return (req.Op != limiter.OpTake && req.Op != limiter.OpPeek) || req.Asks[0].Limit.Count == limiter.MaxSlots
}
