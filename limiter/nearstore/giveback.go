package nearstore

import (
	"context"
	"slices"
	"time"

	"sluice/limiter"
)

const (
	// maxBacks bounds the slices that wait to be given back, maxAlerts the hot
	// keys that wait to be announced.
	maxBacks, maxAlerts = 1024, 64
	// tidyEvery is how often slices are looked after.
	tidyEvery = 50 * time.Millisecond
	// backWait bounds one give-back.
	backWait = 250 * time.Millisecond
	// sweepEvery is how many tidyings there are to a sweep of the deny cache.
	sweepEvery = 20
)

// back is a slice that has ended with units left.
type back struct {
	id   string
	ask  limiter.Ask // its weight is what was spent
	left int64
	// drains: the units drain in the store by themselves, and giving them back
	// would take the ground from under other nodes' slices.
	drains bool
}

// returning is a give-back that is under way.
type returning struct {
	key  limiter.Key
	done chan struct{} // closed when the store has answered
}

// giveBack queues the unspent units of a slice. It never blocks: if the queue is full
// they are lost, which only makes the limit stricter.
func (s *Store) giveBack(b back) {
	switch {
	case b.left <= 0:
		return
	case b.drains:
		s.count.lost.Add(b.left)
		return
	}
	s.backMu.Lock()
	defer s.backMu.Unlock()
	if len(s.backs) >= maxBacks {
		s.count.lost.Add(b.left)
		return
	}
	s.backs = append(s.backs, b)
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// returnAll returns everything in the queue.
func (s *Store) returnAll(ctx context.Context) {
	for s.returnOne(ctx) {
	}
}

// returnOne returns the oldest entry of the queue. One goroutine at a time calls it.
func (s *Store) returnOne(ctx context.Context) bool {
	s.backMu.Lock()
	if len(s.backs) == 0 {
		s.backMu.Unlock()
		return false
	}
	b := s.backs[0]
	s.backs = append(s.backs[:0], s.backs[1:]...)
	r := &returning{key: b.ask.Key, done: make(chan struct{})}
	s.returning = r
	s.backMu.Unlock()
	s.returnNow(ctx, &b)
	s.backMu.Lock()
	s.returning = nil
	s.backMu.Unlock()
	close(r.done)
	return true
}

// awaitReturn waits until no return of a bucket's units is under way, or ctx ends. A
// return that arrived after a reset would give back units that others took since.
func (s *Store) awaitReturn(ctx context.Context, k limiter.Key) {
	s.backMu.Lock()
	r := s.returning
	s.backMu.Unlock()
	if r == nil || r.key != k {
		return
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// returnNow settles the charge of a slice to the units that were spent. It uses the
// slice's own record, so it never gives back units that others spent.
func (s *Store) returnNow(ctx context.Context, b *back) {
	if b.left <= 0 {
		return
	}
	if b.drains {
		s.count.lost.Add(b.left)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, backWait)
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

// recall ends the slices of a bucket, including one that is being fetched and those
// in the queue, and returns their unspent units.
func (s *Store) recall(k limiter.Key) (out []back) {
	for _, h := range s.of(k) {
		h.mu.Lock()
		h.gen++
		h.known, h.denyPause = false, denyPause{}
		b, ok := h.take(s.tick())
		h.mu.Unlock()
		if ok {
			out = append(out, b)
		}
	}
	s.backMu.Lock()
	defer s.backMu.Unlock()
	s.backs = slices.DeleteFunc(s.backs, func(b back) bool {
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
	s.leased[h] = struct{}{}
	s.mu.Unlock()
	s.count.turned.Add(1)
	select {
	case s.alerts <- limiter.HotKey{Key: h.key, Rate: int64(s.opt.HotRate), Hot: true, State: a.Hot, Since: h.since}:
	default: // counted all the same
	}
}

func (s *Store) all() []*hotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*hotKey, 0, len(s.leased))
	for h := range s.leased {
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
	for h := range s.leased {
		if h.key == k {
			out = append(out, h)
		}
	}
	return out
}

// run is the Store's goroutine: it ends old slices, returns units and reports hot keys.
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

// tidy ends the slices of buckets that have turned cold, and those that are over
// or have been held for long, and gives back what they have left.
func (s *Store) tidy(sweep bool) {
	now := s.tick()
	if s.deny != nil && sweep {
		s.deny.sweep(now)
	}
	if s.heat == nil {
		return
	}
	s.heat.roll(now)
	for _, h := range s.all() {
		cold := h.cold.Load()
		h.mu.Lock()
		busy := h.filling != nil
		var b back
		var ended bool
		if sl := &h.slice; sl.id != "" && (cold || now >= sl.until || !sl.leak && now-sl.sent > leaseHold) {
			b, ended = h.take(now)
		}
		h.mu.Unlock()
		if ended {
			s.giveBack(b)
		}
		if cold && !busy {
			s.mu.Lock()
			delete(s.leased, h)
			s.mu.Unlock()
		}
	}
}
