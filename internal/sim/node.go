package sim

import (
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules/match"
)

// node is one Sluice node: a real Checker with its own set, a link to the shared store, and a real
// memory store for the fail mode local.
type node struct {
	w       *world
	id      int
	sets    match.Current
	checker *decide.Checker
	link    link
	own     ownStore
	ledger  *decide.Ledger
	bank    *bank
	skew    int64 // of the clock of the node, ms
	down    bool
	heard   observer
}

// observer records what the Checker reported for the latest question.
type observer struct {
	decide.NopObserver
	degraded []decide.Degraded
	units    map[flow]int64 // as observed
	expected map[flow]int64 // as it should be
}

var _ decide.Observer = (*observer)(nil)

// ObserveDegraded records a degraded decision.
func (o *observer) ObserveDegraded(d decide.Degraded) {
	o.degraded = append(o.degraded, d)
}

// boot starts the node with the latest set and empty memory.
func (n *node) boot() error {
	n.skew = n.w.rng.Int64N(4000) - 2000
	n.link = link{w: n.w, node: n}
	n.own = ownStore{node: n}
	n.bank = newBank("node "+string(rune('0'+n.id))+"'s own store", n.clock, Faithful, n.w.book.shadows, openMemory)
	n.down = false
	set, err := n.w.book.compile()
	if err != nil {
		return err
	}
	n.sets.Store(set)
	if n.ledger, err = n.newLedger(); err != nil {
		return err
	}
	n.checker, err = decide.NewChecker(decide.CheckerOptions{
		Sets: &n.sets, Store: &n.link, Local: &n.own, Ledger: n.ledger, Timeout: -1, Observe: &n.heard, Now: n.time,
	})
	return err
}

// crash stops the node and discards its own store.
func (n *node) crash() error {
	n.down = true
	n.w.sums.own(n.bank)
	return n.bank.close()
}

// clock returns the node's own time in ms; time returns the same.
func (n *node) clock() int64 { return n.w.now + n.skew }

func (n *node) time() time.Time { return time.UnixMilli(n.clock()) }

// openMemory returns the real memory store with a virtual clock. Its sweeper never removes
// anything, because with a custom clock all state is kept for a minute of real time.
func openMemory(clock func() int64) limiter.Store {
	return memstore.New(memstore.Options{Clock: clock})
}
