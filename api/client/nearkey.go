package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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
	denied atomic.Int64 // denials that are not reported yet
	far    atomic.Int64 // the time before which each request is asked

	mu      sync.Mutex
	next    *nearLease // while the lease lasts
	filling *nearFill
	want    int64 // requests of the next lease
	all     bool  // however few are left
	shrinks bool  // leases shrink
	gone    bool  // no longer near
	// denier is the token to report denials with, for the limit that rule names; until when it is taken, and when it was
	// used last, ns.
	denier, rule           string
	denierUntil, reportsAt int64
	// of the sweeper
	seen, idleFrom int64
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
	// nearReport is how long denials are added up before they are reported, ns.
	nearReport = 400 * ms
)

// fill gets a lease, or waits for one that is on its way. Without an answer or an error the caller looks again.
func (k *nearKey) fill(ctx context.Context, now int64) (*Answer, error) {
	k.mu.Lock()
	if k.gone {
		k.mu.Unlock()
		k.far.Store(now + nearFar)
		return nil, nil //nolint:nilnil // the caller asks the service
	}
	if next := k.next; next != nil {
		k.next = nil
		old := k.begin(next, now)
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
	late := time.NewTimer(k.near.c.timeout)
	defer late.Stop()
	select {
	case <-f.done:
		return f.single.Swap(nil), nil
	case <-late.C: // it may wait for a call before it
		return k.near.c.instead(k.q, &UnavailableError{context.DeadlineExceeded}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin makes l the present lease, and returns the previous one. k.mu is held.
func (k *nearKey) begin(l *nearLease, now int64) (old *nearLease) {
	if l != nil {
		l.began = now
	}
	return k.lease.Swap(l)
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
	r := &nearReserve{key: k, fill: f, id: newNearID()}
	r.body = fmt.Appendf(k.body[:len(k.body):len(k.body)], `,"request_id":%q,"times":%d,"least":%d,"ttl_ms":%d}`, r.id,
		want, least, nearLife)
	k.near.calls.reserve(r, ahead && !k.shrinks)
	return f
}

// learn records the answer of the service, for all callers that wait for it.
func (k *nearKey) learn(r *nearReserve) {
	k.mu.Lock()
	old := k.use(r.fill, &r.answer, r.err, r.sent)
	k.filling = nil
	k.mu.Unlock()
	close(r.fill.done)
	k.end(old)
}

// use records what the service answered and returns the lease that has ended. k.mu is held.
func (k *nearKey) use(f *nearFill, a *Answer, err error, sent int64) (old *nearLease) {
	n := k.near
	if err == nil {
		k.failed.Store(nil)
	}
	all := k.all
	k.all = k.all && !k.shrinks && (err != nil || a.Granted < nearLeast) // as long as few are left
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
		return k.begin(l, now)
	case a.Allowed:
		k.decideOne(f, a, sent)
	case a.SpendWithinMS > 0 && !all && a.Remaining != nil && *a.Remaining >= k.weight && k.waits(a):
		k.all = true // fewer are left than a lease should have, and no more come soon
		return nil
	case a.SpendWithinMS > 0:
		k.reportsOf(a, sent)
		pause := a.SpendWithinMS * ms
		if a.ResetMS == nil || a.RetryAfterMS == nil || *a.ResetMS != *a.RetryAfterMS {
			pause = max(pause, nearPause) // little is free then, not all of a window
		}
		if a.RetryAfterMS != nil && *a.RetryAfterMS >= 0 && *a.RetryAfterMS*ms < pause {
			a.RetryAfterMS = new(pause / ms)
		}
		a.SpendWithinMS, a.Reservation, a.ExpiresInMS = 0, "", 0
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
	if a.Granted > 1 || a.SpendWithinMS > 0 { // its life is too short, so that another begins soon
		pause = nearShort * ms
	}
	k.far.Store(sent + pause)
	if a.Reservation != "" && (a.Granted > used || a.SpendWithinMS > 0) {
		s := k.settlement(a.Reservation, used)
		if a.SpendWithinMS > 0 { // otherwise the service has counted a denial
			s.Decisions = &CallerDecisions{Allowed: used}
		}
		k.near.calls.settle(newSettlement(s, 0, k.near.now(), sent))
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
	if left == 0 && spent == 0 {
		return
	}
	s.Decisions = &CallerDecisions{Allowed: spent}
	by := n.now()
	if left == 0 { // nobody waits for it
		by += nearRide
	}
	if !n.calls.settle(newSettlement(s, left, by, l.sent)) {
		n.counts.lost.Add(left)
	}
}

// newSettlement is one that is sent by an instant, of a reserve that was sent at sent.
func newSettlement(s Settlement, left, by, sent int64) *nearSettlement {
	body, _ := json.Marshal(s) // texts and numbers
	return &nearSettlement{body: body, left: left, by: by, until: sent + nearLife*ms}
}

// reportsOf makes a the denial of which denials are reported. k.mu is held.
func (k *nearKey) reportsOf(a *Answer, sent int64) {
	if k.denier != "" && k.rule != a.Rule {
		k.report(sent)
	}
	if k.denier == "" {
		k.reportsAt = sent
	}
	k.denier, k.rule, k.denierUntil = a.Reservation, a.Rule, sent+nearLife*ms
}

// report reports what was denied here, for the limit that denied. k.mu is held.
func (k *nearKey) report(now int64) {
	for k.denier != "" {
		denied := min(k.denied.Load(), maxTimes)
		if denied <= 0 {
			break
		}
		s := newSettlement(Settlement{Reservation: k.denier, Decisions: &CallerDecisions{Denied: denied}}, 0,
			now+nearRide, k.denierUntil-nearLife*ms)
		s.once = true
		if !k.near.calls.settle(s) {
			break
		}
		k.denied.Add(-denied)
	}
	k.reportsAt = now
}

// settlement returns the settlement of a lease of which spent requests were spent.
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

// tidy gives back what nobody asks for, and forgets a question that is asked rarely.
func (k *nearKey) tidy(now int64) {
	k.mu.Lock()
	l, next := k.lease.Load(), k.next
	denied := k.denied.Load()
	idle := denied == k.seen
	if d := k.denial.Load(); denied > 0 && (now-k.reportsAt >= nearReport || d == nil || now >= d.until) {
		k.report(now)
		denied = k.denied.Load()
	}
	k.seen = denied
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
		k.begin(next, now)
		k.next, k.gone = nil, rare && next == nil || k.gone
		k.end(l)
		l = next
	}
	k.gone = k.gone || k.filling == nil && l == nil && now-k.idleFrom >= nearForgotten
	gone := k.gone
	if gone {
		k.report(now) // nobody looks at it again
	}
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
	k.report(k.near.now())
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
