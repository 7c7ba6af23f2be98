package nearstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"sluice/limiter"
)

const (
	ms = int64(time.Millisecond)
	// leaseTarget is how long a lease should last under this node's traffic, ns.
	leaseTarget = 100 * ms
	// leaseHold is the time after which a lease ends and its unspent units are returned, ns.
	leaseHold = 500 * ms
	// leaseEdge is the time before the end of a window in which no lease is taken, ns.
	leaseEdge = 5 * ms
	// leasePause is the time after a failure of the store in which no lease is taken, ns.
	leasePause = 100 * ms
	// pauseFor is the time after a denial in which takes are denied (see denyPause), and
	// pauseAgainFor the time after a pause in which another one may begin, ns.
	pauseFor      = 25 * ms
	pauseAgainFor = 100 * ms
	// leaseShort is the shortest useful lifetime of a lease that leaks, ns.
	leaseShort = 20 * ms
	// leaseLeast is the smallest lease that is worth an operation of the store, in units.
	leaseLeast = 8
	// firstPart and laterPart bound a lease, after division by the number of live nodes: to a part of the capacity
	// until the store has reported the remaining units, then to a part of those.
	firstPart, laterPart = 8, 2
)

// hotKey is a bucket while it is hot. key and since never change.
type hotKey struct {
	key   limiter.Key
	since int64 // ms since the epoch
	mode  atomic.Uint32
	cold  atomic.Bool // no longer hot; tidy removes it

	mu        sync.Mutex
	lease     lease
	filling   chan struct{} // closed when the refill that is under way has ended
	gen       uint64        // grows when the bucket is recalled
	pause     int64         // local time before which no lease is taken
	edge      int64         // local time at which the last lease's window ends
	want      int64         // units that the next lease should have
	known     bool          // the store has reported the remaining units
	remaining int64         // what the store said
	denyPause denyPause
}

// grant holds the units that one limit of a take got from a lease.
type grant struct {
	h  *hotKey
	id string
	w  int64
	d  limiter.Decision
	at int64
	// denied: a denyPause denied the take.
	denied bool
}

// undo returns the units to the lease, if it is still there.
func (g *grant) undo() {
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.h.lease.id == g.id {
		g.h.lease.left += g.w
	}
	g.d.SetRoom(g.d.Limit - g.d.Used + g.w)
}

// takeLeased takes the weight of a from the bucket's lease, or requests a new lease. alone is
// true if the take has no other limit.
func (s *Store) takeLeased(ctx context.Context, h *hotKey, a *limiter.Ask, alone bool, g *grant) bool {
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
		old, had := h.endLease(now)
		done := make(chan struct{})
		h.filling = done
		gen := h.gen
		h.mu.Unlock()
		if had {
			s.returnLater(old)
		}
		return s.refill(ctx, h, a, extra, gen, done, g)
	}
	return false
}

// spend takes from the lease if it has enough units. The caller holds h.mu.
func (h *hotKey) spend(a *limiter.Ask, now int64, g *grant) bool {
	held := &h.lease
	if held.id == "" || held.limit != a.Limit || held.available(now) < a.Weight {
		return false
	}
	held.left -= a.Weight
	*g = grant{h: h, id: held.id, w: a.Weight, d: held.decision(now), at: held.at + (now-held.got)/ms}
	return true
}

// size returns the number of units of the next lease, in addition to a's weight. The caller
// holds h.mu.
func (h *hotKey) size(a *limiter.Ask, now, nodes int64) int64 {
	if now < h.pause || now < h.edge && h.edge-now < leaseEdge {
		return 0
	}
	most := a.Limit.Capacity() / (firstPart * nodes)
	if h.known {
		most = (h.remaining - a.Weight) / (laterPart * nodes)
	}
	if h.want == 0 {
		h.want = 64 * a.Weight
	}
	if held := &h.lease; held.id != "" {
		// At the rate at which this lease was spent, for leaseTarget.
		gave := float64(held.total-held.left) * float64(leaseTarget) / float64(max(ms, now-held.sent))
		h.want = min(max(int64(min(gave, float64(limiter.MaxExact))), h.want/4, leaseLeast), 4*h.want)
	}
	want := h.want
	if a.Limit.Algorithm.Bucketed() {
		if !h.known {
			return 0 // an exact answer first
		}
		want = max(want, a.Limit.LeaseFloor(a.Limit.Capacity()-h.remaining, leaseTarget/ms))
		if want > most {
			return 0
		}
	}
	return min(want, most)
}

// endLease removes the lease. The caller holds h.mu.
func (h *hotKey) endLease(now int64) (endedLease, bool) {
	held := &h.lease
	if held.id == "" {
		return endedLease{}, false
	}
	b := endedLease{
		id: held.id, left: held.left, drains: held.leaks,
		ask: limiter.Ask{Key: h.key, Limit: held.limit, Weight: held.total - held.left, Spans: held.spans},
	}
	if now >= held.until && held.limit.Algorithm.Traits().Decay == limiter.DecayAtOnce {
		b.left = 0 // the units no longer count
	}
	*held = lease{}
	return b, true
}

// refill takes a's weight and a lease of extra units from the store, in one operation.
func (s *Store) refill(ctx context.Context, h *hotKey, a *limiter.Ask, extra int64, gen uint64, done chan struct{},
	g *grant) bool {
	var next lease
	defer func() {
		h.mu.Lock()
		if next.id != "" && h.gen == gen {
			h.lease, h.edge = next, next.until
		} else if next.id != "" {
			s.count.lost.Add(next.left) // recalled in the meantime
		}
		h.filling = nil
		h.mu.Unlock()
		close(done)
	}()
	whole := limiter.Ask{Key: h.key, Limit: a.Limit, Weight: a.Weight + extra, Spans: a.Spans, Guard: a.Guard,
		NotAfter: a.NotAfter, HighWater: a.HighWater, Former: a.Former}
	req := limiter.Request{ID: newID(), Asks: []limiter.Ask{whole}}
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
			whole.Weight, whole.Former = 0, nil
			s.returnLater(endedLease{id: req.ID, ask: whole, left: a.Weight + extra})
		}
		return false
	}
	d := res.Limits[0]
	h.recordRemaining(a, &d)
	if !res.Allowed {
		return false
	}
	wait, leaks := a.Limit.LeaseLife(&d)
	if leaks && wait*ms < leaseShort {
		h.mu.Lock()
		h.pause = got + leasePause
		h.mu.Unlock()
	}
	next = lease{
		id: req.ID, limit: a.Limit, spans: a.Spans, d: d, at: res.At, total: a.Weight + extra, units: extra, left: extra,
		sent: sent, got: got, until: sent + (wait-1)*ms, leaks: leaks,
	}
	s.count.leased.Add(extra)
	s.count.spent.Add(a.Weight)
	*g = grant{h: h, id: next.id, w: a.Weight, d: next.decision(got), at: next.at}
	return true
}

// recordRemaining records the remaining units that the store reported.
func (h *hotKey) recordRemaining(a *limiter.Ask, d *limiter.Decision) {
	if a.Weight < 1 {
		return
	}
	h.mu.Lock()
	h.known, h.remaining, h.denyPause.heard = true, d.Remaining, true
	h.mu.Unlock()
}

// lease holds units of one bucket that are charged in the store and that this node spends by
// itself.
type lease struct {
	id    string // of its record in the store; "" for no lease
	limit limiter.Limit
	spans bool             // Ask.Spans
	d     limiter.Decision // of the store, when it was taken
	at    int64            // the store's time then, ms
	total int64            // units charged
	units int64            // of these, units kept for later takes
	left  int64            // of these, unspent units
	// sent, got and until are local times: when the lease was requested, when it was granted, and the time after which
	// it is never spent. until counts from sent, so it is never late.
	sent, got, until int64
	// leaks: it loses units steadily, down to none at until.
	leaks bool
}

// available returns the units that may be spent at local time now.
func (l *lease) available(now int64) int64 {
	if now >= l.until || now < l.sent {
		return 0
	}
	if l.leaks {
		// over ms of wait have passed, rounded up, plus one because the store's clock
		// shows whole milliseconds.
		wait := (l.until-l.sent)/ms + 1
		over := (now-l.sent+ms-1)/ms + 1
		l.left = min(l.left, proportion(l.units, max(0, wait-over), wait))
	}
	return l.left
}

// proportion is units*part/whole, rounded down; 0 <= part <= whole.
func proportion(units, part, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(units), uint64(part)) //nolint:gosec // not negative
	q, _ := bits.Div64(hi, lo, uint64(whole))         //nolint:gosec // not negative
	return int64(q)                                   //nolint:gosec // at most units
}

// decision returns the decision of a take from the lease. Remaining is the number that remained in the store when the
// lease was taken, plus the rest of the lease.
func (l *lease) decision(now int64) limiter.Decision {
	d := l.d
	d.SetRoom(d.Limit - d.Used + l.left)
	if d.Reset > 0 {
		d.Reset = max(1, d.Reset-(now-l.got)/ms)
	}
	return d
}

// newID names a lease: 128 random bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return "lease~" + base64.RawURLEncoding.EncodeToString(b[:])
}
