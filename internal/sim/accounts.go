package sim

import "fmt"

// tally counts units of takes by the answers that clients got, over all enforced limits except
// leases.
type tally struct {
	store   int64 // allowed by the shared store, repeats left out
	local   int64 // allowed by a node's own store
	open    int64 // allowed because nothing could decide
	charged int64 // charged in the own stores of nodes that crashed
}

// own adds up what a node's own store charged in its life.
func (t *tally) own(b *bank) { t.charged += b.books.sums.charged.heard }

// Accounts adds up one run, in units of takes over every enforced limit that counts units:
//
//	Admitted = Within + Lost + Emptied + Local + Open
//
// Within is the sum of the shared store's books, which kept the published bound of every limit at
// every step.
type Accounts struct {
	// Admitted is the units that answers allowed, without repeats of one request.
	Admitted int64
	// Within stands in the books of the shared store.
	Within int64
	// Lost stood there until a failover lost it.
	Lost int64
	// Emptied stood there until the store was emptied.
	Emptied int64
	// Local was allowed by nodes' own stores, within the limit on each node.
	Local int64
	// Open was allowed because nothing could decide.
	Open int64
	// Unheard was charged, but the answer was lost. It is not admitted.
	Unheard int64
}

// Rest returns the difference of the two sides of the equation; it must be 0.
func (a Accounts) Rest() int64 {
	return a.Admitted - a.Within - a.Lost - a.Emptied - a.Local - a.Open
}

// plus adds two runs.
func (a Accounts) plus(b Accounts) Accounts {
	return Accounts{
		Admitted: a.Admitted + b.Admitted, Within: a.Within + b.Within, Lost: a.Lost + b.Lost, Emptied: a.Emptied + b.Emptied,
		Local: a.Local + b.Local, Open: a.Open + b.Open, Unheard: a.Unheard + b.Unheard,
	}
}

func (w *world) accounts() Accounts {
	s := &w.server.books.sums
	return Accounts{
		Admitted: w.sums.store + w.sums.local + w.sums.open,
		Within:   w.server.books.standing().heard,
		Lost:     s.lost.heard, Emptied: s.flushed.heard,
		Local: w.ownCharged(), Open: w.sums.open, Unheard: s.charged.unheard,
	}
}

// ownCharged is what the own stores of all nodes charged.
func (w *world) ownCharged() int64 {
	n := w.sums.charged
	for _, node := range w.nodes {
		if !node.down {
			n += node.bank.books.sums.charged.heard
		}
	}
	return n
}

// verify checks the accounts after a step: the answers that clients got must agree with the stores'
// books.
func (w *world) verify() error {
	if w.failed != nil {
		return w.failed
	}
	a := w.accounts()
	if a.Rest() != 0 {
		return broken("the accounts do not close: %+v leaves %d", a, a.Rest())
	}
	if err := w.server.balance(); err != nil {
		return err
	}
	for _, n := range w.nodes {
		if !n.down {
			if err := n.checkLedger(); err != nil {
				return err
			}
		}
	}
	s := &w.server.books.sums
	standing := w.server.books.standing()
	if rest := s.charged.unheard - s.lost.unheard - s.flushed.unheard - standing.unheard; rest != 0 {
		return broken("%d units charged unheard of are nowhere", rest)
	}
	return nil
}

// String returns the equation with its numbers.
func (a Accounts) String() string {
	return fmt.Sprintf("admitted %d = within limit %d + lost by failover %d + lost by flush %d + local %d + open %d "+
		"(charged unheard %d)",
		a.Admitted, a.Within, a.Lost, a.Emptied, a.Local, a.Open, a.Unheard)
}
