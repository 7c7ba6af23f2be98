package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// nearKey is a question that is near. Its check and weight never change.
type nearKey struct {
	near   *Near
	hash   uint64
	q      Check
	weight int64
	body   []byte // of the check, without its closing brace
	chain  atomic.Pointer[nearKey]
	place  int // in the table's keys, under its lock

	lease  atomic.Pointer[nearLease]
	denial atomic.Pointer[nearDenial]
	failed atomic.Pointer[nearFailure]
	denied atomic.Int64 // denials that the service does not know of yet
	far    atomic.Int64 // the time before which each request is asked

	mu      sync.Mutex
	next    *nearLease // while the lease lasts
	filling *nearFill
	want    int64 // requests of the next lease
	all     bool  // however few are left
	shrinks bool  // leases shrink
	gone    bool  // no longer near
	// of the sweeper
	denials, idleFrom int64
}

// nearFill is a call for a lease, which any number of callers wait for.
type nearFill struct {
	done  chan struct{}
	ahead bool // nobody waits for it yet
	// single is an answer to one request, for the first caller that takes it.
	single atomic.Pointer[Answer]
}

const (
	// nearPause is the shortest time between calls for one question that is denied, nearRetry that between calls while the
	// service is unavailable, and nearFar the time for which a question is asked each time that cannot be near, ns.
	nearPause, nearRetry, nearFar = 25 * ms, 25 * ms, 1000 * ms
	// nearSoon is how long a question is denied at most for the sake of a larger lease, ns.
	nearSoon = 100 * ms
	// nearLife is how long a lease can be settled, ms.
	nearLife = 10_000
)

// fill gets a lease, or waits for one that is on its way. Without an answer or an error the caller looks again.
func (k *nearKey) fill(ctx context.Context, now int64) (*Answer, error) {
	k.mu.Lock()
	if k.gone {
		k.mu.Unlock()
		k.far.Store(now + nearFar)
		return nil, nil //nolint:nilnil // the caller asks by itself
	}
	if next := k.next; next != nil {
		k.next = nil
		old := k.lease.Swap(next)
		k.mu.Unlock()
		k.end(old)
		return nil, nil //nolint:nilnil // the caller looks again
	}
	f, failed := k.filling, k.failed.Load()
	if f == nil {
		f = k.start(false, now)
	} else if failed != nil { // one caller finds out whether the service is available
		k.mu.Unlock()
		return k.near.c.instead(k.q, failed.err), nil
	}
	k.mu.Unlock()
	select {
	case <-f.done:
		return f.single.Swap(nil), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetch asks for the next lease while this one lasts.
func (k *nearKey) fetch() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.filling == nil && k.next == nil && !k.gone {
		k.start(true, k.near.now())
	}
}

// start asks for a lease. k.mu is held.
func (k *nearKey) start(ahead bool, now int64) *nearFill {
	f := &nearFill{done: make(chan struct{}), ahead: ahead}
	k.want = max(k.want, nearFirst)
	want := k.want
	if l := k.lease.Load(); l != nil {
		k.want, want = l.size(k.want, now, k.near.opt.Target)
	}
	k.filling = f
	least := nearLeast
	switch {
	case k.all:
		least = 1
	case k.shrinks:
		least = max(least, min(want/2, nearLeastShrinks))
	}
	k.near.fills.Go(func() { k.ask(f, want, least) })
	return f
}

// ask makes the call for a lease, for all that wait for it.
func (k *nearKey) ask(f *nearFill, want, least int64) {
	n, c := k.near, k.near.c
	id := newNearID()
	body := fmt.Appendf(k.body[:len(k.body):len(k.body)], `,"request_id":%q,"times":%d,"least":%d,"ttl_ms":%d}`, id,
		want, least, nearLife)
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	a := &Answer{}
	sent := n.now()
	n.counts.calls.Add(1)
	err := c.decide(ctx, context.Background(), "/ratelimit/reserve", body, a)
	k.mu.Lock()
	old := k.learn(f, a, err, sent)
	k.filling = nil
	k.mu.Unlock()
	close(f.done)
	k.end(old)
	if err != nil && Unavailable(err) && !errors.Is(err, errBreaker) && !Overloaded(err) {
		// It may have been charged, and is given back by its id.
		n.giveBack(func(ctx context.Context) {
			q := k.q
			q.RequestID = id
			n.counts.calls.Add(1)
			_, _ = c.Refund(ctx, q)
		})
	}
}

// learn records what the service answered and returns the lease that has ended. k.mu is held.
func (k *nearKey) learn(f *nearFill, a *Answer, err error, sent int64) (old *nearLease) {
	n := k.near
	if err == nil {
		k.failed.Store(nil)
	}
	all := k.all
	k.all = false
	switch now := n.now(); {
	case err != nil && Unavailable(err):
		k.failed.Store(&nearFailure{until: now + nearRetry, err: err})
	case err != nil:
		k.far.Store(now + nearFar)
	case a.Allowed && a.Reservation != "" && a.SpendWithinMS >= nearShort && a.Granted > 0 && a.Degraded == "" && !k.gone:
		n.counts.granted.Add(a.Granted)
		k.shrinks = a.Shrinks
		weight := k.weight
		if len(k.q.Fields) > 0 {
			weight = 0
		}
		l := newLease(a, weight, sent)
		if f.ahead && k.lease.Load() != nil {
			k.next = l
			return nil
		}
		return k.lease.Swap(l)
	case a.Allowed:
		k.decideOne(f, a, sent)
	case a.SpendWithinMS > 0 && !all && a.Remaining != nil && *a.Remaining >= k.weight && k.waits(a):
		k.all = true // fewer are left than a lease should have, and no more come soon
		return nil
	case a.SpendWithinMS > 0:
		if !f.ahead {
			k.denied.Add(-1) // the service has counted the first one that is denied
			n.counts.denied.Add(-1)
		}
		pause := max(a.SpendWithinMS*ms, nearPause)
		if a.RetryAfterMS != nil && *a.RetryAfterMS >= 0 && *a.RetryAfterMS*ms < pause {
			a.RetryAfterMS = new(pause / ms)
		}
		a.SpendWithinMS = 0
		k.denial.Store(&nearDenial{until: sent + pause, answer: a})
	default:
		k.far.Store(now + nearFar)
		f.single.Store(a)
	}
	return nil
}

// waits reports whether it takes long until as much is left as a lease should have. A bucket that drains soon has it.
func (k *nearKey) waits(a *Answer) bool {
	soon := nearPause
	if k.shrinks {
		soon = nearSoon
	}
	return a.RetryAfterMS == nil || *a.RetryAfterMS < 0 || *a.RetryAfterMS*ms > soon
}

// decideOne uses an allowed answer that is no lease for one request, and gives back the rest. k.mu is held.
func (k *nearKey) decideOne(f *nearFill, a *Answer, sent int64) {
	used := int64(1)
	if f.ahead {
		used = 0
	} else {
		one := *a
		one.Reservation, one.ExpiresInMS, one.Granted, one.SpendWithinMS, one.Shrinks = "", 0, 0, 0, false
		f.single.Store(&one)
	}
	pause := nearFar
	if a.Granted > 1 { // its life is too short, so that another begins soon
		pause = nearShort * ms
	}
	k.far.Store(sent + pause)
	if a.Reservation != "" && (a.Granted > used || a.SpendWithinMS > 0) {
		s := k.settlement(a.Reservation, used)
		if a.SpendWithinMS > 0 { // else the service has counted one
			s.Decisions = &CallerDecisions{Allowed: used}
		}
		k.near.giveBack(func(ctx context.Context) { k.near.settle(ctx, s) })
	}
}

// end ends a lease, gives back what is left of it and reports what was decided.
func (k *nearKey) end(l *nearLease) {
	if l == nil {
		return
	}
	spent, ok := l.end()
	if !ok {
		return
	}
	n := k.near
	n.counts.spent.Add(spent)
	left := l.granted - spent
	s := k.settlement(l.token, spent)
	if l.shrinks { // nothing of it is given back
		n.counts.lost.Add(left)
		left = 0
	}
	s.Decisions = &CallerDecisions{Allowed: spent, Denied: k.takeDenied()}
	if left == 0 && spent == 0 && s.Decisions.Denied == 0 {
		return
	}
	given := n.giveBack(func(ctx context.Context) {
		if n.settle(ctx, s) > 0 {
			n.counts.returned.Add(left)
		} else {
			n.counts.lost.Add(left)
		}
	})
	if !given {
		n.counts.lost.Add(left)
	}
}

// takeDenied returns the denials to report.
func (k *nearKey) takeDenied() int64 {
	denied := min(max(0, k.denied.Load()), maxTimes)
	k.denied.Add(-denied)
	return denied
}

// settlement is that of a lease of which so many requests were spent.
func (k *nearKey) settlement(token string, spent int64) Settlement {
	s := Settlement{Reservation: token, Weight: new(spent * k.weight)}
	if len(k.q.Fields) > 0 {
		s.Fields = make(map[string]int64, len(k.q.Fields))
		for name, v := range k.q.Fields {
			s.Fields[name] = v * spent
		}
	}
	return s
}

// settle settles a lease and returns how many units came back. It is repeated once, because a settlement counts once.
func (n *Near) settle(ctx context.Context, s Settlement) (refunded int64) {
	for try := 0; try < 2 && ctx.Err() == nil; try++ {
		n.counts.calls.Add(1)
		a, err := n.c.Settle(ctx, s)
		if err == nil {
			return a.Refunded
		}
		if !Unavailable(err) {
			break
		}
	}
	return 0
}

// tidy gives back what nobody asks for, and forgets a question that is asked rarely.
func (k *nearKey) tidy(now int64) {
	k.mu.Lock()
	l, next := k.lease.Load(), k.next
	denials := k.denied.Load()
	idle := denials == k.denials
	k.denials = denials
	if l != nil {
		left := leftOf(l.state.Load())
		idle = idle && left == l.seen
		l.seen = left
	}
	if !idle || k.idleFrom == 0 {
		k.idleFrom = now
	}
	for ; k.filling == nil; next = nil {
		over := l != nil && (now >= l.until || now-k.idleFrom >= nearIdle)
		if !over {
			break
		}
		rare := now-l.sent >= nearIdle && (l.granted-max(0, leftOf(l.state.Load())))*2 < l.granted
		k.lease.Store(next)
		k.next, k.gone = nil, rare && next == nil || k.gone
		k.end(l)
		l = next
	}
	k.gone = k.gone || k.filling == nil && l == nil && now-k.idleFrom >= nearForgotten
	gone := k.gone
	k.mu.Unlock()
	if gone {
		k.near.table.remove(k)
	}
}

// leave ends the leases of a question for good.
func (k *nearKey) leave() {
	k.mu.Lock()
	k.gone = true
	next, l := k.next, k.lease.Swap(nil)
	k.next = nil
	k.mu.Unlock()
	k.end(l)
	k.end(next)
}

// newNearID names a reserve: 128 random bits.
func newNearID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return "near~" + base64.RawURLEncoding.EncodeToString(b[:])
}
