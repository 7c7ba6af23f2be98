package nearstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sluice/limiter"
)

const (
	ms = int64(time.Millisecond)
	// leaseTarget is for how much of this node's traffic a slice should last, ns.
	leaseTarget = 100 * ms
	// leaseHold is after how long what a slice has left is given back, ns.
	leaseHold = 500 * ms
	// leaseEdge is how shortly before the end of a window no slice is taken, ns.
	leaseEdge = 5 * ms
	// leasePause is for how long no slice is taken after the store failed, ns.
	leasePause = 100 * ms
	// pauseFor is for how long takes are denied after a denial (see denyPause), and
	// pauseAgainFor how long after a pause another one may begin, ns.
	pauseFor      = 25 * ms
	pauseAgainFor = 100 * ms
	// leaseShort is the shortest life of a slice of a bucket that is worth it, ns.
	leaseShort = 20 * ms
	// leaseLeast is the smallest slice worth an operation, in units.
	leaseLeast = 8
	// firstPart and laterPart bound a slice to a part of what there is, divided by
	// the live nodes: of the capacity before the store has said what remains, of
	// what remains afterwards.
	firstPart, laterPart = 8, 2
)

// hotKey is a bucket while it is hot. key and since never change.
type hotKey struct {
	key   limiter.Key
	since int64 // ms since the epoch
	mode  atomic.Uint32
	cold  atomic.Bool // no longer counted; to be tidied up

	mu        sync.Mutex
	slice     slice
	filling   chan struct{} // closed when the refill that is under way has ended
	gen       uint64        // grows when the bucket is recalled
	pause     int64         // local time before which no slice is taken
	edge      int64         // local time at which the last slice's window ends
	want      int64         // units that the next slice should have
	known     bool          // the store has said what remains
	room      int64         // what that was
	denyPause denyPause
}

// grant is what a slice gave to one limit of a take.
type grant struct {
	h  *hotKey
	id string
	w  int64
	d  limiter.Decision
	at int64
	// denied: nothing was given, in a denyPause.
	denied bool
}

// undo returns the units to the slice, if it is still there.
func (g *grant) undo() {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.h.slice.id == g.id {
		g.h.slice.left += g.w
	}
	g.d.Remaining += g.w
}

// lease takes the weight of a from the bucket's slice, or fetches a new slice. alone is
// true if the take has no other limit.
func (s *Store) lease(ctx context.Context, h *hotKey, a *limiter.Ask, alone bool, g *grant) bool {
	for range 3 {
		now := s.tick()
		h.mu.Lock()
		if h.spend(a, now, g) {
			h.mu.Unlock()
			s.count.spent.Add(a.Weight)
			return true
		}
		if alone && h.denyInPause(a, now, g) {
			h.mu.Unlock()
			return true
		}
		if wait := h.filling; wait != nil {
			h.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return false
			}
		}
		extra := h.size(a, now, int64(max(1, s.opt.Nodes())))
		if extra < leaseLeast || !alone && a.Limit.Align == limiter.AlignFirstHit {
			// A window that starts at its first hit must be started by one.
			denied := alone && h.known && h.pauseAgain(a, now) && h.denyInPause(a, now, g)
			h.mu.Unlock()
			return denied
		}
		old, had := h.take(now)
		done := make(chan struct{})
		h.filling = done
		gen := h.gen
		h.mu.Unlock()
		if had {
			s.giveBack(old)
		}
		return s.refill(ctx, h, a, extra, gen, done, g)
	}
	return false
}

// spend takes from the slice as it is. h.mu is held.
func (h *hotKey) spend(a *limiter.Ask, now int64, g *grant) bool {
	sl := &h.slice
	if sl.id == "" || sl.limit != a.Limit || sl.available(now) < a.Weight {
		return false
	}
	sl.left -= a.Weight
	*g = grant{h: h, id: sl.id, w: a.Weight, d: sl.decision(now), at: sl.at + (now-sl.got)/ms}
	return true
}

// size returns the number of units of the next slice, beside a's weight. The caller
// holds h.mu.
func (h *hotKey) size(a *limiter.Ask, now, nodes int64) int64 {
	if now < h.pause || now < h.edge && h.edge-now < leaseEdge {
		return 0
	}
	most := a.Limit.Capacity() / (firstPart * nodes)
	if h.known {
		most = (h.room - a.Weight) / (laterPart * nodes)
	}
	if h.want == 0 {
		h.want = 64 * a.Weight
	}
	if sl := &h.slice; sl.id != "" {
		// As much as this slice gave in its time, for the target's time.
		gave := float64(sl.total-sl.left) * float64(leaseTarget) / float64(max(ms, now-sl.sent))
		h.want = min(max(int64(min(gave, float64(limiter.MaxExact))), h.want/4, leaseLeast), 4*h.want)
	}
	want := h.want
	if a.Limit.Algorithm.Bucketed() {
		if !h.known {
			return 0 // an exact answer first
		}
		want = max(want, h.floor(&a.Limit))
		if want > most {
			return 0
		}
	}
	return min(want, most)
}

// floor is how many units a slice of a bucket must add to the level for it to
// last for the target's time: a level of twice what drains in that time.
func (h *hotKey) floor(l *limiter.Limit) int64 {
	drains := 2.2 * float64(l.Count) / float64(l.Window) * float64(leaseTarget/ms)
	return int64(drains) + 1 - (l.Capacity() - h.room)
}

// take removes the slice. The caller holds h.mu.
func (h *hotKey) take(now int64) (back, bool) {
	sl := &h.slice
	if sl.id == "" {
		return back{}, false
	}
	b := back{
		id: sl.id, ask: limiter.Ask{Key: h.key, Limit: sl.limit, Weight: sl.total - sl.left}, left: sl.left,
		drains: sl.leak,
	}
	if now >= sl.until && sl.limit.Algorithm.Traits().Decay == limiter.DecayAtOnce {
		b.left = 0 // they count no more
	}
	*sl = slice{}
	return b, true
}

// retire is take for a caller that does not hold h.mu.
func (h *hotKey) retire(now int64) (back, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.take(now)
}

// refill takes a's weight and extra units from the store, in one operation.
func (s *Store) refill(ctx context.Context, h *hotKey, a *limiter.Ask, extra int64, gen uint64, done chan struct{},
	g *grant) bool {
	var next slice
	defer func() {
		h.mu.Lock()
		if next.id != "" && h.gen == gen {
			h.slice, h.edge = next, next.until
		} else if next.id != "" {
			s.count.lost.Add(next.left) // recalled meanwhile
		}
		h.filling = nil
		h.mu.Unlock()
		close(done)
	}()
	req := limiter.Request{ID: newID(), Asks: []limiter.Ask{{Key: h.key, Limit: a.Limit, Weight: a.Weight + extra}}}
	var res limiter.Result
	sent := s.tick()
	err := s.inner.Do(ctx, &req, &res)
	got := s.tick()
	s.count.refills.Add(1)
	if err != nil {
		h.mu.Lock()
		h.pause = got + leasePause
		h.mu.Unlock()
		var se *limiter.StoreError
		if errors.As(err, &se) && se.Unknown {
			s.giveBack(back{id: req.ID, ask: limiter.Ask{Key: h.key, Limit: a.Limit}, left: a.Weight + extra})
		}
		return false
	}
	d := res.Limits[0]
	h.saw(a, &d)
	if !res.Allowed {
		return false
	}
	wait, leak := lasts(&a.Limit, &d)
	if leak && wait*ms < leaseShort {
		h.mu.Lock()
		h.pause = got + leasePause
		h.mu.Unlock()
	}
	next = slice{
		id: req.ID, limit: a.Limit, d: d, at: res.At, total: a.Weight + extra, units: extra, left: extra,
		sent: sent, got: got, until: sent + (wait-1)*ms, leak: leak,
	}
	s.count.leased.Add(extra)
	s.count.spent.Add(a.Weight)
	*g = grant{h: h, id: next.id, w: a.Weight, d: next.decision(got), at: next.at}
	return true
}

// saw records the remaining units that the store reported.
func (h *hotKey) saw(a *limiter.Ask, d *limiter.Decision) {
	if a.Weight < 1 {
		return
	}
	h.mu.Lock()
	h.known, h.room, h.denyPause.heard = true, d.Remaining, true
	h.mu.Unlock()
}

// newID names a slice: 128 random bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return "lease~" + base64.RawURLEncoding.EncodeToString(b[:])
}
