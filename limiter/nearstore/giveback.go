package nearstore

import (
	"context"
	"slices"
	"time"

	"sluice/limiter"
)

const (
	// maxReturns is the largest number of ended leases that wait to be returned, maxAlerts the largest number of hot
	// keys that wait to be reported.
	maxReturns, maxAlerts = 1024, 64
	// tidyEvery is how often old leases are ended.
	tidyEvery = 50 * time.Millisecond
	// returnTimeout bounds the return of one lease.
	returnTimeout = 250 * time.Millisecond
	// sweepEvery is how many times leases are tidied up before the deny cache is swept.
	sweepEvery = 20
)

// endedLease is a lease that has ended with unspent units.
type endedLease struct {
	id   string
	ask  limiter.Ask // its weight is what was spent
	left int64
	// drains: the units drain in the store without a return. Returning them would lower the level on which the leases
	// of other nodes rely.
	drains bool
}

// returning is a return that is under way.
type returning struct {
	key  limiter.Key
	done chan struct{} // closed when the store has answered
}

// returnLater queues the unspent units of a lease. It never blocks: if the queue is full
// they are lost, which only makes the limit stricter.
func (s *Store) returnLater(b endedLease) {
	switch {
	case b.left <= 0:
		return
	case b.drains:
		s.count.lost.Add(b.left)
		return
	}
	s.returnsMu.Lock()
	defer s.returnsMu.Unlock()
	if len(s.returns) >= maxReturns {
		s.count.lost.Add(b.left)
		return
	}
	s.returns = append(s.returns, b)
	select {
	case s.wake <- struct{}{}:
	default: // the goroutine is awake already
	}
}

// returnAll returns everything in the queue.
func (s *Store) returnAll(ctx context.Context) {
	for s.returnOne(ctx) {
	}
}

// returnOne returns the oldest entry of the queue. One goroutine at a time calls it.
func (s *Store) returnOne(ctx context.Context) bool {
	s.returnsMu.Lock()
	if len(s.returns) == 0 {
		s.returnsMu.Unlock()
		return false
	}
	b := s.returns[0]
	s.returns = append(s.returns[:0], s.returns[1:]...)
	r := &returning{key: b.ask.Key, done: make(chan struct{})}
	s.returning = r
	s.returnsMu.Unlock()
	s.returnNow(ctx, &b)
	s.returnsMu.Lock()
	s.returning = nil
	s.returnsMu.Unlock()
	close(r.done)
	return true
}

// awaitReturn waits until no return of a bucket's units is under way, or ctx ends. A
// return that arrived after a reset would give back units that others took since.
func (s *Store) awaitReturn(ctx context.Context, k limiter.Key) {
	s.returnsMu.Lock()
	r := s.returning
	s.returnsMu.Unlock()
	if r == nil || r.key != k {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// returnNow settles the charge of a lease to the units that were spent. It uses the
// lease's own record, so it never gives back units that others spent.
func (s *Store) returnNow(ctx context.Context, b *endedLease) {
	if b.left <= 0 {
		return
	}
	if b.drains {
		s.count.lost.Add(b.left)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	var res limiter.Result
	err := s.inner.Do(ctx, &limiter.Request{Op: limiter.OpSettle, ID: b.id, Asks: []limiter.Ask{b.ask}}, &res)
	if err != nil || !res.Allowed {
		s.count.lost.Add(b.left)
		return
	}
	s.count.returned.Add(b.left)
	s.changed(b.ask.Key, true, false)
}

// recall ends the leases of a bucket, including one that is being fetched and those
// in the queue, and returns their unspent units.
func (s *Store) recall(k limiter.Key) (out []endedLease) {
	for _, h := range s.of(k) {
		h.mu.Lock()
		h.gen++
		h.known, h.denyPause = false, denyPause{}
		b, ok := h.endLease(s.tick())
		h.mu.Unlock()
		if ok {
			out = append(out, b)
		}
	}
	s.returnsMu.Lock()
	defer s.returnsMu.Unlock()
	s.returns = slices.DeleteFunc(s.returns, func(b endedLease) bool {
		if b.ask.Key == k {
			out = append(out, b)
		}
		return b.ask.Key == k
	})
	return out
}

// serveHot records how a hot bucket is served. turned is true if it has just turned hot.
func (s *Store) serveHot(h *hotKey, a *limiter.Ask, turned bool) {
	if mode := uint32(a.Hot); h.mode.Load() != mode {
		h.mode.Store(mode)
	}
	if !turned {
		return
	}
	s.mu.Lock()
	s.hotKeys[h] = struct{}{}
	s.mu.Unlock()
	s.count.turned.Add(1)
	select {
	case s.alerts <- limiter.HotKey{Key: h.key, Heat: limiter.Heat{Rate: int64(s.opt.HotRate), Hot: true, Since: h.since,
		State: a.Hot}}:
	default: // counted although it is dropped
	}
}

func (s *Store) all() []*hotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*hotKey, 0, len(s.hotKeys))
	for h := range s.hotKeys {
		out = append(out, h)
	}
	return out
}

// of returns the hotKeys of a bucket: the current one, and earlier ones that tidy has
// not removed yet.
func (s *Store) of(k limiter.Key) []*hotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*hotKey
	for h := range s.hotKeys {
		if h.key == k {
			out = append(out, h)
		}
	}
	return out
}

// run is the Store's goroutine: it ends old leases, returns units and reports hot keys.
func (s *Store) run() {
	defer close(s.done)
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.tidy(n%sweepEvery == 0)
		case <-s.wake:
			s.returnAll(context.Background())
		case k := <-s.alerts:
			if s.opt.TurnedHot != nil {
				s.opt.TurnedHot(k)
			}
		}
	}
}

// tidy ends leases that have expired, have been held for long, or belong to buckets that
// have turned cold, and returns their unspent units.
func (s *Store) tidy(sweep bool) {
	now := s.tick()
	if s.deny != nil && sweep {
		s.deny.sweep(now)
	}
	if s.sketch == nil {
		return
	}
	s.sketch.roll(now)
	for _, h := range s.all() {
		cold := h.cold.Load()
		h.mu.Lock()
		busy := h.filling != nil
		var b endedLease
		var ended bool
		if held := &h.lease; held.id != "" && (cold || now >= held.until || !held.leaks && now-held.sent > leaseHold) {
			b, ended = h.endLease(now)
		}
		h.mu.Unlock()
		if ended {
			s.returnLater(b)
		}
		if cold && !busy {
			s.mu.Lock()
			delete(s.hotKeys, h)
			s.mu.Unlock()
		}
	}
}
