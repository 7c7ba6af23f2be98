package sim

import (
	"context"

	"sluice/api/decide"
	"sluice/limiter"
)

// ledgerStore is the store through which a node's Ledger charges the shared store with the units that the node admitted
// alone. All of its calls succeed or all fail, because the order of the Ledger's map must not matter.
type ledgerStore struct {
	w       *world
	charged int64 // units that arrived
}

var _ limiter.Store = (*ledgerStore)(nil)

// Do sends one charge.
func (s *ledgerStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	calls := []limiter.Call{{Request: *req}}
	s.DoAll(ctx, calls)
	*res = calls[0].Result
	return calls[0].Err
}

// DoAll sends charges.
func (s *ledgerStore) DoAll(_ context.Context, calls []limiter.Call) {
	for i := range calls {
		c := &calls[i]
		if s.w.now < s.w.downUntil {
			c.Err = &limiter.StoreError{Cause: limiter.CauseConnection, Err: errFault}
			continue
		}
		if c.Err = s.w.fail(s.w.server.apply(&c.Request, &c.Result, true)); c.Err == nil {
			s.charged += units(c.Request.Asks)
		}
	}
}

// reconcileOne reconciles the Ledger of one node once. Its writes reach the replica, so that no
// failover depends on their order.
func (w *world) reconcileOne() error {
	n := pick(w.rng, w.nodes)
	if n.down {
		return nil
	}
	over, cancel := context.WithCancel(context.Background())
	cancel() // with a canceled context a Ledger tries exactly once
	way := &ledgerStore{w: w}
	before := n.ledger.Stats()
	n.ledger.Reconcile(over, way)
	w.server.model.replicated = len(w.server.model.log)
	after := n.ledger.Stats()
	if w.now < w.downUntil { // the order in which it tried is random
		w.say("node %d cannot reconcile", n.id)
	} else {
		w.say("node %d reconciles: %+v", n.id, after)
	}
	if got := after.Reconciled - before.Reconciled; got != way.charged {
		return broken("node %d says it reconciled %d units, %d arrived", n.id, got, way.charged)
	}
	if w.now >= w.downUntil && after.Pending != 0 {
		return broken("node %d still owes %d units after reconciling", n.id, after.Pending)
	}
	return w.failed
}

// checkLedger checks that a node's Ledger accounts for everything that the node admitted alone.
func (n *node) checkLedger() error {
	s := n.ledger.Stats()
	if s.Spent != s.Reconciled+s.Expired+s.Doubtful+s.Dropped+s.Pending {
		return broken("node %d's ledger does not close: %+v", n.id, s)
	}
	if charged := n.bank.books.sums.charged.heard; s.Spent != charged {
		return broken("node %d's ledger remembers %d units, its own store admitted %d", n.id, s.Spent, charged)
	}
	return nil
}

// alive returns the number of nodes that are up.
func (w *world) alive() (count int) {
	for _, n := range w.nodes {
		if !n.down {
			count++
		}
	}
	return count
}

// newLedger creates the node's Ledger, with which local limits start with current counts, are
// shared among nodes and are reconciled.
func (n *node) newLedger() (*decide.Ledger, error) {
	return decide.NewLedger(decide.LedgerOptions{Local: &n.own, Nodes: n.w.alive, Now: n.time})
}

// mirrored reports whether a request to a node's own store only repeats an operation of the
// shared store.
func mirrored(req *limiter.Request) bool {
	return (req.Op != limiter.OpTake && req.Op != limiter.OpPeek) || req.Asks[0].Limit.Count == limiter.MaxSlots
}
