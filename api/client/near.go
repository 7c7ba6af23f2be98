package client

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// NearOptions configure a Near. The zero NearOptions suit most programs.
type NearOptions struct {
	// Rate is the number of equal checks per second from which they are decided near; 20 if 0.
	Rate int64
	// Target is how long the requests of one call should last; 100 ms if 0.
	Target time.Duration
	// Keys is how many questions are near at once; 10,000 if 0. Others are asked each time.
	Keys int
}

const (
	defaultNearRate   = 20
	defaultNearTarget = 100 * time.Millisecond
	defaultNearKeys   = 10_000
)

// Near decides frequent checks of a program in its memory, from requests that the service has charged ahead: a unit is
// charged in every bucket of a check before it can be spent, so no limit is exceeded. Near asks the service each time,
// as Client.Check does, for rare checks, for checks whose limits do not permit this (Answer.SpendWithinMS), and for
// checks with a RequestID, a Payload, a Dialect or a Weight of 0. docs/client.md states the bounds. It is safe for
// concurrent use.
type Near struct {
	c      *Client
	opt    NearOptions
	start  time.Time
	table  nearTable
	heat   nearHeat
	counts nearCounts

	calls nearCalls

	closed  atomic.Bool
	stop    chan struct{}
	sweeper sync.WaitGroup
}

// NearStats count requests. Granted is Spent, Returned, Lost and Held together.
type NearStats struct {
	// Granted requests were charged ahead. Of these, Spent were admitted, Returned were given back, and Lost were
	// neither: they drained, could not be given back, or their window had ended.
	Granted, Spent, Returned, Lost int64
	// Held may still be spent or given back.
	Held int64
	// Denied were denied here.
	Denied int64
	// Calls counts the calls for reserves and settlements, many of which share one, and for refunds.
	Calls int64
	// Questions are near now.
	Questions int
}

type nearCounts struct{ granted, spent, returned, lost, denied, calls atomic.Int64 }

const (
	ms = int64(time.Millisecond)
	// nearSweep is how often leases are looked at that nobody asks for.
	nearSweep = 50 * time.Millisecond
	// nearIdle is the time without a question after which a lease is given back, nearForgotten that after which the
	// question is no longer near, ns.
	nearIdle, nearForgotten = 500 * ms, 2000 * ms
)

// NewNear returns a Near that uses c. Closing c closes it.
func NewNear(c *Client, opt NearOptions) *Near {
	n := &Near{c: c, stop: make(chan struct{}), opt: NearOptions{
		Rate: cmp.Or(max(opt.Rate, 0), defaultNearRate), Target: cmp.Or(max(opt.Target, 0), defaultNearTarget),
		Keys: cmp.Or(max(opt.Keys, 0), defaultNearKeys)}}
	n.start = c.breaker.now()
	n.table.start(n.opt.Keys)
	n.heat.start(n.opt.Keys)
	n.calls.start(n)
	c.nearMu.Lock()
	defer c.nearMu.Unlock()
	if c.nears == nil {
		n.closed.Store(true)
		return n
	}
	c.nears[n] = true
	n.sweeper.Go(n.sweep)
	return n
}

// now is in ns since the start.
func (n *Near) now() int64 { return int64(n.c.breaker.now().Sub(n.start)) }

// Check is Client.Check. An answer that was decided here may be shared by several callers, so it must not be changed.
// Its Remaining and Headers, and the figures of its limits, are the figures of the service plus the unspent granted
// requests, except for a check with Fields, whose limits may each count another weight. RetryAfterMS of a denial may be
// up to a second too long.
func (n *Near) Check(ctx context.Context, q Check) (*Answer, error) {
	if q.RequestID != "" || q.Payload != nil || q.Dialect != "" || q.Weight != nil && *q.Weight < 1 || n.closed.Load() {
		return n.c.Check(ctx, q)
	}
	h := n.table.hash(&q)
	k := n.table.find(h, &q)
	if k == nil && n.heat.count(h, n.now()/int64(time.Second)) >= n.opt.Rate {
		k = n.add(h, &q)
	}
	if k == nil {
		return n.c.Check(ctx, q)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for range 4 {
		now := n.now()
		if a := k.decide(now); a != nil {
			return a, nil
		}
		if f := k.failed.Load(); f != nil && now < f.until {
			return n.c.instead(q, f.err), nil
		}
		if now < k.far.Load() || n.closed.Load() {
			break
		}
		a, err := k.fill(ctx, now)
		if a != nil || err != nil {
			return a, err
		}
	}
	return n.c.Check(ctx, q)
}

// decide answers from the lease or from a denial, nil if neither can.
func (k *nearKey) decide(now int64) *Answer {
	n := k.near
	if l := k.lease.Load(); l != nil {
		if left, ok := l.spend(now); ok && l.holds(left, n.now()) { // a caller that was interrupted may be late
			if l.low(left) && l.asked.CompareAndSwap(false, true) {
				k.fetch()
			}
			return l.answer(left, now)
		}
	}
	if d := k.denial.Load(); d != nil && now < d.until {
		k.denied.Add(1)
		n.counts.denied.Add(1)
		return d.answer
	}
	return nil
}

// add makes a question near, if there is room for it.
func (n *Near) add(h uint64, q *Check) *nearKey {
	k := &nearKey{near: n, hash: h, q: q.clone(), weight: 1}
	k.q.UserAgent, k.q.TraceID, k.q.OnExpire = "", "", nil // an expired lease stays charged
	if q.Weight != nil {
		k.weight = *q.Weight
	}
	body, err := k.q.encode()
	if err != nil {
		return nil // the service is not asked either, and says why
	}
	k.body = body[:len(body)-1]
	return n.table.add(k)
}

// Stats returns what became of the requests that were granted since the start.
func (n *Near) Stats() NearStats {
	c := &n.counts
	s := NearStats{Spent: c.spent.Load(), Returned: c.returned.Load(), Lost: c.lost.Load(), Denied: c.denied.Load(),
		Calls: c.calls.Load(), Questions: len(n.table.all())}
	s.Granted = c.granted.Load()
	s.Held = s.Granted - s.Spent - s.Returned - s.Lost
	return s
}

// Close gives back what is left, for at most the CallTimeout of the client; the rest is lost. Checks are asked each
// time from then on. A second Close does nothing.
func (n *Near) Close() {
	if !n.closed.CompareAndSwap(false, true) {
		return
	}
	close(n.stop)
	n.sweeper.Wait()
	for _, k := range n.table.close() {
		k.leave()
	}
	n.calls.close(n.c.callTimeout)
	n.c.nearMu.Lock()
	defer n.c.nearMu.Unlock()
	delete(n.c.nears, n)
}

// sweep gives back what nobody asks for.
func (n *Near) sweep() {
	t := time.NewTicker(nearSweep)
	defer t.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		for _, k := range n.table.all() {
			k.tidy(n.now())
		}
		n.calls.flush(n.now())
	}
}
