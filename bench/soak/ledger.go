package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// doubtful is a request with an id that may have been spent although its answer was lost.
type doubtful struct {
	class, user int
	weight      int64
	heard       bool // a later answer of the store admitted it
}

// ledger records the answers that clients got and the results of audits. It is safe for
// concurrent use.
type ledger struct {
	s *settings

	mu       sync.Mutex
	accounts [][]account // by class and user
	doubts   map[string]*doubtful
	records  map[string]int // how often an audit found the record of a request
	failures map[string]int // requests without an answer that should have had one
	excused  int            // requests in flight on a node that was killed
	repeats  int
	replayed int
	edits    int64 // of the edited class, each of which adds 1 to its limit
	phase    *phase
}

func newLedger(s *settings) *ledger {
	l := &ledger{s: s, doubts: map[string]*doubtful{}, records: map[string]int{}, failures: map[string]int{},
		phase: &phase{name: "quiet start", began: time.Now()}}
	for range classes {
		l.accounts = append(l.accounts, make([]account, s.users))
	}
	return l
}

// heard is one request from the point of view of its client.
type heard struct {
	class, user int
	weight      int64
	id          string
	allowed     bool
	degraded    string
	replayed    bool
	lost        int  // attempts without an answer
	answered    bool // in the end
	at          time.Time
	took        time.Duration
}

func (l *ledger) note(h heard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.accounts[h.class][h.user]
	a.asked += h.weight
	l.phase.note(h)
	l.repeats += h.lost
	if h.replayed {
		l.replayed++
	}
	if h.lost > 0 || h.degraded != "" {
		if h.id != "" {
			l.doubts[h.id] = &doubtful{class: h.class, user: h.user, weight: h.weight, heard: h.answered && h.allowed &&
				h.degraded == ""}
		}
		n := int64(h.lost)
		if h.degraded != "" {
			n++
		}
		a.doubt += n * h.weight
	}
	switch {
	case !h.answered:
		a.unanswered += h.weight
	case h.allowed && h.degraded == "":
		a.store += h.weight
	case h.allowed && h.degraded == "open":
		a.open += h.weight
	case h.allowed:
		a.local += h.weight
	case h.degraded == "closed":
		a.byClosed += h.weight
	case h.degraded == "":
		a.byLimit += h.weight
	default:
		a.locally += h.weight
	}
}

// fail counts a request that got no answer without a reason.
func (l *ledger) fail(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[why]++
	l.phase.failed++
}

// excuse counts a request in flight on a node that was killed.
func (l *ledger) excuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.excused++
	l.phase.excused++
}

// found records the result of an audit. held is true for the last one.
func (l *ledger) found(d *deposit, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range d.records {
		l.records[id]++
	}
	for b, units := range d.spent {
		l.within(b, units)
		a := &l.accounts[b.class][b.user]
		switch {
		case held && b.wide:
			a.heldWide += units
		case held:
			a.held += units
		case b.wide:
			a.lostWide += units
		default:
			a.lost += units
		}
	}
}

// within checks that a bucket does not exceed its limit. Units that a node's memory admitted may
// be charged in addition, and each edit raises the limit by one.
func (l *ledger) within(b bucket, units int64) {
	limit := l.s.limit
	switch c := &classes[b.class]; {
	case b.wide:
		limit *= int64(l.s.users)
	case c.failMode == "local":
		limit *= 2
	case c.edited:
		limit += l.edits
	}
	if units > limit {
		l.failures[fmt.Sprintf("a bucket of %s holds %d units, its limit is %d", classes[b.class].name, units, limit)]++
	}
}

// edited counts an edit before it is made.
func (l *ledger) edited() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edits++
	return l.edits
}

// close makes the last audit and computes the units that were spent without an answer.
func (l *ledger) close(ctx context.Context, f *fleet) error {
	wait(ctx, 3*time.Second) // for calls that are under way between nodes and Redis
	for _, n := range f.nodes {
		n.metrics.read(ctx, n.addr)
		n.metrics.keep()
	}
	d, err := f.audit(ctx, lookOnly)
	if err != nil {
		return err
	}
	l.found(d, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, q := range l.doubts {
		n := int64(l.records[id])
		if q.heard {
			n--
		}
		l.accounts[q.class][q.user].unheard += n * q.weight
	}
	return nil
}
