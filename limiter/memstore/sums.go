package memstore

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/limiter"
)

var _ limiter.Exporter = (*Store)(nil)

// regional is the data kept with a bucket that spans regions. The lock of the bucket's shard guards it.
type regional struct {
	own      limiter.Sums
	received limiter.Received
	// listed: the bucket is among the shard's changed ones.
	listed bool
	// touched: the request under way has changed own or heard.
	touched bool
}

// spend counts what an ask has booked.
func (r *regional) spend(a *limiter.Ask, s *limiter.State, now int64, c limiter.Charged) {
	if r != nil && c.Weight > 0 {
		r.own.Spend(a.Limit, s, now, c.Weight)
		if a.Guard != limiter.GuardOff {
			r.own.NoteLimit(a.Limit)
		}
		r.touched = true
	}
}

// hold returns the function that holds back takes of a request, nil if there is none.
func (s *Store) hold(
	req *limiter.Request, states []*limiter.State, sums []*regional, now int64,
) func(int) (int64, int64, bool) {
	guarded := func(a limiter.Ask) bool { return a.Spans && a.Guard != limiter.GuardOff }
	if !slices.ContainsFunc(req.Asks, guarded) {
		return nil
	}
	return func(i int) (left, wait int64, held bool) {
		a, r := &req.Asks[i], sums[i]
		if r == nil || a.Guard == limiter.GuardOff {
			return 0, 0, false
		}
		left, held = r.own.Held(a.Limit, states[i], now, a.Weight, a.Guard, s.regions)
		if held && req.Op == limiter.OpTake && a.Spends(req.Op) {
			r.own.Deny(now, a.Weight)
			r.touched = true
		}
		return left, s.regions.Wait, held
	}
}

// refund is limiter.Refund.
func (r *regional) refund(l limiter.Limit, s *limiter.State, now int64, c limiter.Charged) (limiter.Decision, bool) {
	if r == nil {
		return limiter.Refund(l, s, now, c)
	}
	r.touched = true
	return r.own.Refund(l, s, now, c)
}

// refundNow is limiter.RefundNow.
func (r *regional) refundNow(l limiter.Limit, s *limiter.State, now, w int64) (limiter.Decision, bool) {
	if r == nil || w == 0 {
		return limiter.RefundNow(l, s, now, w)
	}
	r.touched = true
	return r.own.RefundNow(l, s, now, w)
}

// settle is limiter.Settle.
func (r *regional) settle(
	l limiter.Limit, s *limiter.State, now int64, c limiter.Charged, actual int64,
) (limiter.Decision, bool) {
	if r == nil {
		return limiter.Settle(l, s, now, c, actual)
	}
	r.touched = true
	return r.own.Settle(l, s, now, c, actual)
}

// reset begins an incarnation.
func (r *regional) reset(now int64) {
	if r != nil {
		r.own.ResetAt(now, r.received)
		r.received, r.touched = nil, true
	}
}

// apply books what another region spent, or this one before the store lost its data.
func (r *regional) apply(req *limiter.Request, s *limiter.State, now int64, res *limiter.Result, restoring bool,
) (changed bool) {
	a := &req.Asks[0]
	reset, outcome := r.own.Reset, limiter.Shrunk
	switch {
	case req.Op == limiter.OpApply:
		outcome, changed = limiter.Apply(a.Limit, s, &r.own, &r.received, req.ID, req.Sums, now)
	case restoring:
		outcome, changed = limiter.Restore(a.Limit, s, &r.own, &r.received, req.Sums, now)
	}
	// A received reset is passed on. Restored units are passed on too, because another region may lack them.
	r.touched = r.own.Reset != reset || req.Op == limiter.OpRestore && outcome == limiter.Applied
	res.Limits[0], _ = limiter.RefundNow(a.Limit, s, now, 0)
	res.Limits[0].Allowed = outcome != limiter.Shrunk
	res.Allowed, res.Replayed = res.Limits[0].Allowed, outcome == limiter.Repeated
	return changed
}

// loadSums returns the data kept with the bucket of an ask that spans regions, nil for others.
func (sh *shard) loadSums(hash uint64, a *limiter.Ask) *regional {
	if !a.Spans {
		return nil
	}
	if old := sh.sums.find(hash, newBucketKey(a.Key)); old != nil {
		old.value.touched = false
		return old.value
	}
	return &regional{}
}

// storeSums keeps r for as long as its units, and the units just received, can count anywhere, and lists the bucket for
// the export if its own sums have changed.
func (s *Store) storeSums(sh *shard, hash uint64, a *limiter.Ask, r *regional, received *limiter.Sums, at instant) {
	if r == nil || r.own.Born == 0 && r.own.Reset == 0 && len(r.received) == 0 {
		return
	}
	key := newBucketKey(a.Key)
	slot := sh.sums.find(hash, key)
	if slot == nil {
		sh.sums.add(slotOfSums{hash: hash, key: key.owned(), value: r})
		slot = sh.sums.find(hash, key)
	}
	life := r.own.Life(a.Limit)
	if received != nil {
		life = max(life, received.Life(a.Limit))
	}
	slot.deadline = max(slot.deadline, s.recordDeadline(life, at))
	if r.touched && !r.listed && r.own.Worth(a.Limit, s.regions.Parts) {
		r.listed = true
		sh.changedSums = append(sh.changedSums, slot.key)
		sh.forgetDropped()
	}
}

// forgetDropped takes buckets that were dropped off the list of changed ones, once they may be more than half of
// it, so that it does not grow while nobody exports.
func (sh *shard) forgetDropped() {
	if len(sh.changedSums) <= 2*len(sh.sums.slots)+64 {
		return
	}
	sh.changedSums = sh.changedSums[:0]
	for i := range sh.sums.slots {
		if sh.sums.slots[i].value.listed {
			sh.changedSums = append(sh.changedSums, sh.sums.slots[i].key)
		}
	}
}

type slotOfSums = slot[bucketKey, *regional]

// leases are the exports that were not confirmed yet.
type leases struct {
	mu     sync.Mutex
	last   int64
	leased map[bucketKey]lease
}

type lease struct{ number, until int64 }

// Changed implements limiter.Exporter.
func (s *Store) Changed(ctx context.Context) (changed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, storeError(err)
	}
	if s.regions.Restores && !s.kept.Load() {
		return 0, limiter.ErrLost
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		changed += len(sh.changedSums)
		sh.mu.Unlock()
	}
	return changed, nil
}

// Export implements limiter.Exporter.
func (s *Store) Export(ctx context.Context, most int, term time.Duration) ([]limiter.Exported, error) {
	if err := ctx.Err(); err != nil {
		return nil, storeError(err)
	}
	if s.regions.Restores && !s.kept.Load() {
		return nil, limiter.ErrLost
	}
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	s.leases.last++
	now := s.mono()
	given := lease{number: s.leases.last, until: now + term.Milliseconds()}
	if s.leases.leased == nil {
		s.leases.leased = map[bucketKey]lease{}
	}
	var out []limiter.Exported
	for key, l := range s.leases.leased {
		if l.until <= now && len(out) < most {
			delete(s.leases.leased, key)
			hash := s.hash(limiter.Key(key.appendTo(nil)))
			out = s.exportOf(&s.shards[shardOf(hash)], hash, key, given, out)
		}
	}
	for i := range s.shards {
		if len(out) >= most {
			break
		}
		out = s.exportChanged(&s.shards[i], most, given, out)
	}
	return out, nil
}

// exportChanged appends the changed sums of a shard, up to most in all.
func (s *Store) exportChanged(sh *shard, most int, given lease, out []limiter.Exported) []limiter.Exported {
	sh.mu.Lock()
	n := min(most-len(out), len(sh.changedSums))
	keys := slices.Clone(sh.changedSums[:n])
	sh.changedSums = slices.Delete(sh.changedSums, 0, n)
	sh.mu.Unlock()
	for _, key := range keys {
		out = s.exportOf(sh, s.hash(limiter.Key(key.appendTo(nil))), key, given, out)
	}
	return out
}

// exportOf appends the sums of a bucket, if there are any.
func (s *Store) exportOf(
	sh *shard, hash uint64, key bucketKey, given lease, out []limiter.Exported,
) []limiter.Exported {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.sums.find(hash, key)
	if slot == nil {
		return out
	}
	slot.value.listed = false
	sums := slot.value.own
	sums.Windows = slices.Clone(sums.Windows)
	s.leases.leased[key] = given
	e := limiter.Exported{Key: limiter.Key(key.appendTo(nil)), Sums: sums, Lease: given.number}
	for _, h := range slot.value.received {
		if h.Sums.Windows = nil; h.Sums.Taken > 0 || h.Sums.Denied > 0 {
			e.Received = append(e.Received, h)
		}
	}
	return append(out, e)
}

// Confirm implements limiter.Exporter.
func (s *Store) Confirm(ctx context.Context, sums []limiter.Exported) error {
	if err := ctx.Err(); err != nil {
		return storeError(err)
	}
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	for i := range sums {
		key := newBucketKey(sums[i].Key)
		if s.leases.leased[key].number == sums[i].Lease {
			delete(s.leases.leased, key)
		}
		s.guard(key, &sums[i])
	}
	return nil
}

// guard sets the guard of a bucket.
func (s *Store) guard(key bucketKey, told *limiter.Exported) {
	hash := s.hash(told.Key)
	sh := &s.shards[shardOf(hash)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if slot := sh.sums.find(hash, key); slot != nil {
		slot.value.own.Told(told)
	}
}

// BeginRestore implements limiter.Exporter.
func (s *Store) BeginRestore(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, storeError(err)
	}
	if s.kept.Load() {
		return false, nil
	}
	for {
		is, names := s.restoring.Load(), []string{name}
		if is != nil {
			names = append(slices.Clone(*is), name)
		}
		if s.restoring.CompareAndSwap(is, &names) {
			return true, nil
		}
	}
}

// EndRestore implements limiter.Exporter.
func (s *Store) EndRestore(ctx context.Context, name string, but ...limiter.Key) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, storeError(err)
	}
	is := s.restoring.Load()
	if len(but) > 0 || is == nil || !slices.Contains(*is, name) || !s.kept.CompareAndSwap(false, true) {
		return false, nil
	}
	s.restoring.Store(nil)
	return true, nil
}

// Recall implements limiter.Exporter. A call reads one shard.
func (s *Store) Recall(ctx context.Context, region, cursor string) (known []limiter.Exported, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", storeError(err)
	}
	i, _ := strconv.ParseUint(cursor, 10, 8) // "" is the first shard
	sh := &s.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for j := range sh.sums.slots {
		slot := &sh.sums.slots[j]
		e := limiter.Exported{Key: limiter.Key(slot.key.appendTo(nil))}
		if s.kept.Load() || !s.regions.Restores {
			e.Sums = slot.value.own
			e.Sums.Windows = slices.Clone(e.Sums.Windows)
		}
		for _, h := range slot.value.received {
			if h.Region == region {
				h.Sums.Windows = slices.Clone(h.Sums.Windows)
				e.Received = append(e.Received, h)
			}
		}
		known = append(known, e)
	}
	if i+1 < shardCount {
		next = strconv.FormatUint(i+1, 10)
	}
	return known, next, nil
}

var _ limiter.SpentReader = (*Store)(nil)

// Spent implements limiter.SpentReader.
func (s *Store) Spent(ctx context.Context, key limiter.Key) (out limiter.Spent, err error) {
	if err := ctx.Err(); err != nil {
		return out, storeError(err)
	}
	hash := s.hash(key)
	sh := &s.shards[shardOf(hash)]
	out.Now = s.instant().now
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot := sh.sums.find(hash, newBucketKey(key))
	if slot == nil {
		return out, nil
	}
	out.Own = slot.value.own
	out.Own.Windows = slices.Clone(out.Own.Windows)
	for _, h := range slot.value.received {
		if h.Region == limiter.Restored {
			continue
		}
		h.Sums.Windows = slices.Clone(h.Sums.Windows)
		out.Received = append(out.Received, h)
	}
	return out, nil
}
