package main

import (
	"cmp"
	"slices"
)

// account holds the units of one user. At the end, for every bucket,
//
//	admitted = held + lost − unheard + degraded
//
// where admitted is the units that clients were allowed; held is the units that Redis has at the
// end; lost is the units that it had just before each flush or kill; degraded is the units that
// fail modes allowed; and unheard is the units spent for requests that the store did not answer
// in time. Requests with ids leave records in Redis by which unheard is counted, so that their
// sum must be exact. For other requests it must be between 0 and doubt.
type account struct {
	asked                       int64
	store, open, local          int64 // admitted, by what decided
	byLimit, byClosed, locally  int64 // denied, by what decided
	unanswered                  int64 // never answered and not repeated
	doubt                       int64 // possibly spent without the caller's knowledge
	held, lost, unheard, repaid int64
	heldWide, lostWide          int64 // of the rule that all users share; user 0 only
}

func (a *account) admitted() int64 { return a.store + a.open + a.local }

// line is the sum of one class.
type line struct {
	class
	account
	// rest is the sum of the users' absolute differences, which nothing explains.
	rest int64
}

// lines returns the sum of every class.
func (l *ledger) lines() []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []line
	for i, c := range classes {
		ln := line{class: c}
		var wide, store int64
		for u := range l.accounts[i] {
			a := &l.accounts[i][u]
			if !c.lease {
				ln.rest += a.settle(&c)
			}
			wide += a.heldWide + a.lostWide
			store += a.held + a.lost
			ln.add(a)
		}
		if c.wide {
			ln.rest += abs(wide - store) // both rules are taken together or neither is
		}
		out = append(out, ln)
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	return out
}

// settle computes the figures that cannot be counted separately and returns the difference.
func (a *account) settle(c *class) int64 {
	over := a.held + a.lost - a.store - a.unheard
	if c.failMode == "local" && over > 0 {
		// Units that a node's memory admitted are charged to Redis after an outage.
		a.repaid = min(over, a.local)
		over -= a.repaid
	}
	if !c.ids && over > 0 {
		a.unheard = min(over, a.doubt)
		over -= a.unheard
	}
	return abs(over)
}

func (a *account) add(b *account) {
	a.asked += b.asked
	a.store += b.store
	a.open += b.open
	a.local += b.local
	a.byLimit += b.byLimit
	a.byClosed += b.byClosed
	a.locally += b.locally
	a.unanswered += b.unanswered
	a.doubt += b.doubt
	a.held += b.held
	a.lost += b.lost
	a.unheard += b.unheard
	a.repaid += b.repaid
}

func abs(n int64) int64 { return max(n, -n) }
