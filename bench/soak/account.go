package main

import (
	"cmp"
	"slices"
)

// account is one user's side of the sum, in units. For every bucket, at the end,
//
//	admitted = held + lost − unheard + degraded
//
// where admitted is what the clients heard allowed, by whomever; held is what
// Redis says was spent when all is over; lost is what it said just before each
// flush or kill that emptied it; degraded is what fail modes allowed; and
// unheard is what was spent for requests whose answer did not come from the
// store: it was lost, or came too late and a fail mode had decided. Requests
// with ids leave records in Redis by which unheard is counted apart, so that
// their sum must close exactly. For the others it must lie between 0 and doubt.
type account struct {
	asked                       int64
	store, open, local          int64 // admitted, by whom
	byLimit, byClosed, locally  int64 // denied, by whom
	unanswered                  int64 // never answered, and not repeated
	doubt                       int64 // may have been spent without the caller's knowledge
	held, lost, unheard, repaid int64
	heldWide, lostWide          int64 // of the rule that all users share; user 0 only
}

func (a *account) admitted() int64 { return a.store + a.open + a.local }

// line is the sum of one class.
type line struct {
	class
	account
	// rest is what remains unexplained, added up without its sign over the users.
	rest int64
}

// lines closes the sum for every class.
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
			ln.rest += abs(wide - store) // both rules are taken together or not at all
		}
		out = append(out, ln)
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	return out
}

// settle fills in what cannot be counted apart and returns what is left over.
func (a *account) settle(c *class) int64 {
	over := a.held + a.lost - a.store - a.unheard
	if c.failMode == "local" && over > 0 {
		// What this node's memory admitted is charged to Redis when it is back.
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
