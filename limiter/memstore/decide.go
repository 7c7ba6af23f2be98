package memstore

import (
	"slices"
	"strings"
	"sync"

	"sluice/limiter"
)

const (
	// slackMax is the longest time, in ms, for which state is kept after it expired,
	// so that an edit that lengthens the window still finds the consumption.
	slackMax int64 = 60_000
	// keepWithClock is the shortest time, in ms, for which state is kept with
	// Options.Clock.
	keepWithClock int64 = 60_000
)

// doOne decides a request with one limit of one region and no record, without allocating.
func (s *Store) doOne(req *limiter.Request, res *limiter.Result) {
	a := &req.Asks[0]
	hash := s.hash(a.Key)
	sh := &s.shards[shardOf(hash)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := s.instant()
	res.Limits = append(res.Limits[:0], limiter.Decision{})
	res.Replayed, res.At = false, at.now
	old := sh.load(hash, a, &sh.scratch)
	s.decideAll(req, nil, sh.states[:], sh.noSums[:], at.now, sh.changed[:], sh.charged[:], res)
	s.store(sh, hash, a, old, req.Op, &sh.scratch, sh.changed[0], at)
	sh.scratch.Entries = nil
}

// birth returns the number of a bucket that begins.
func (sh *shard) birth() uint32 {
	if sh.births++; sh.births == 0 { // which stands for none
		sh.births = 1
	}
	return sh.births
}

// load copies the bucket of a into st and returns its slot, nil without a bucket.
// It copies because kernels may rewrite a state that is not stored afterwards.
func (sh *shard) load(hash uint64, a *limiter.Ask, st *limiter.State) *bucketSlot {
	old := sh.buckets.find(hash, newBucketKey(a.Key))
	if old == nil {
		*st = limiter.State{Born: sh.birth()}
		return nil
	}
	*st = old.value
	if a.Limit.Buckets > 0 && (st.Scale != a.Limit.Window || st.Prev != a.Limit.Buckets) {
		// Only a changed rule rewrites entries without spending.
		st.Entries = slices.Clone(st.Entries)
	}
	return old
}

// store writes st back if it changed, and sets how long the bucket is kept under its
// present limit.
func (s *Store) store(
	sh *shard, hash uint64, a *limiter.Ask, old *bucketSlot, op limiter.Op, st *limiter.State, changed bool, at instant,
) {
	applies := op == limiter.OpApply || op == limiter.OpRestore
	if op == limiter.OpReset || applies && changed && !st.Exists {
		if old != nil {
			sh.buckets.remove(hash, newBucketKey(a.Key))
			s.keys.Add(-1)
		}
		return
	}
	if old == nil && !changed {
		return
	}
	if st.Born == 0 {
		st.Born = sh.birth()
	}
	needed := max(1, limiter.Expires(a.Limit, st)-at.now)
	if !changed {
		if old.deadline-at.mono < needed {
			old.deadline = s.deadline(needed, at)
		}
		return
	}
	if c := cap(st.Entries); c > 64 && len(st.Entries) < c/4 {
		st.Entries = slices.Clone(st.Entries)
	}
	if old != nil {
		old.value, old.deadline = *st, s.deadline(needed, at)
		return
	}
	sh.buckets.add(bucketSlot{
		hash:     hash,
		deadline: s.deadline(needed, at),
		key:      newBucketKey(a.Key).owned(),
		value:    *st,
	})
	s.keys.Add(1)
}

// deadline is when state that is needed for that many ms may be dropped.
func (s *Store) deadline(needed int64, at instant) int64 {
	keep := min(needed, limiter.MaxWindow)
	return s.recordDeadline(keep+min(keep, slackMax), at)
}

// recordDeadline is when a record that is kept for that many ms may be dropped. It
// gets no slack, unlike a bucket.
func (s *Store) recordDeadline(keep int64, at instant) int64 {
	if s.clock != nil && !s.steady {
		keep = max(keep, keepWithClock)
	}
	return at.mono + keep
}

// decideAll runs the operation on the loaded states and fills res.Allowed and
// res.Limits, which already has its length. rec is the record of a refund
// or settlement, nil if there is none. sums has nil for an ask that does not span
// regions.
func (s *Store) decideAll(
	req *limiter.Request, rec *record, states []*limiter.State, sums []*regional, now int64,
	changed []bool, charged []limiter.Charged, res *limiter.Result,
) {
	switch req.Op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		res.Allowed = limiter.DecideHeld(req.Op, req.Asks, ownID(req), states, now, changed, res.Limits, charged,
			s.hold(req, states, sums, now))
		for i := range sums {
			sums[i].spend(&req.Asks[i], states[i], now, charged[i])
		}
		return
	case limiter.OpApply, limiter.OpRestore:
		changed[0] = sums[0].apply(req, states[0], now, res, s.restoring.Load() != nil)
		return
	}
	res.Allowed = true
	for i := range req.Asks {
		a := &req.Asks[i]
		d := &res.Limits[i]
		switch {
		case req.Op == limiter.OpReset:
			*states[i] = limiter.State{}
			sums[i].reset(now)
			*d, changed[i] = limiter.RefundNow(a.Limit, states[i], now, 0)
		case req.Op == limiter.OpClose:
			*d, changed[i] = limiter.Shut(a.Limit, states[i], now)
		case req.OnlyKeeps():
			*d, changed[i] = limiter.RefundNow(a.Limit, states[i], now, 0)
			d.Allowed = rec.open()
		case req.Op == limiter.OpSettle:
			*d, changed[i] = rec.settle(a, states[i], sums[i], now)
		case req.Op == limiter.OpRenew:
			*d, changed[i] = limiter.Renew(a.Limit, states[i], now, ownID(req))
		case req.Op == limiter.OpRelease, req.ID != "" && a.Limit.Algorithm.Traits().Slots:
			rec.refund(a.Key)
			*d, changed[i] = limiter.Release(a.Limit, states[i], now, req.ID)
		case req.ID != "":
			*d, changed[i] = sums[i].refund(a.Limit, states[i], now, rec.refund(a.Key))
		default:
			*d, changed[i] = sums[i].refundNow(a.Limit, states[i], now, a.Weight)
		}
		res.Allowed = res.Allowed && d.Allowed
	}
}

// ownID copies the request's ID if a slot may keep it.
func ownID(req *limiter.Request) string {
	for i := range req.Asks {
		if req.Asks[i].Limit.Algorithm.Traits().Slots {
			return strings.Clone(req.ID)
		}
	}
	return req.ID
}

// work is scratch space for a decision on several limits.
type work struct {
	values  []limiter.State
	states  []*limiter.State
	sums    []*regional
	changed []bool
	moved   []bool // the state includes the units of a former bucket
	charged []limiter.Charged
	hashes  []uint64
	order   []int // the shards to lock, ascending, each once
}

var workPool = sync.Pool{New: func() any { return new(work) }}

func newWork(n int) *work {
	w, ok := workPool.Get().(*work)
	if !ok || len(w.values) < n {
		w = &work{
			values: make([]limiter.State, n), states: make([]*limiter.State, n),
			sums: make([]*regional, n), changed: make([]bool, n), moved: make([]bool, n),
			charged: make([]limiter.Charged, n), hashes: make([]uint64, n), order: make([]int, 0, n),
		}
		for i := range w.values {
			w.states[i] = &w.values[i]
		}
	}
	return w
}

func (w *work) free() {
	clear(w.values)
	clear(w.sums)
	workPool.Put(w)
}

// doMany decides a request of any form. rec is the record that a refund or
// settlement uses. It locks the shards in ascending order, so requests cannot
// deadlock. It leaves what was booked in w.charged.
func (s *Store) doMany(req *limiter.Request, res *limiter.Result, w *work, rec *record) (at instant, needed int64) {
	n := len(req.Asks)
	w.order = w.order[:0]
	for i := range req.Asks {
		w.hashes[i] = s.hash(req.Asks[i].Key)
		w.order = append(w.order, shardOf(w.hashes[i]))
		if req.Asks[i].Former != nil {
			w.order = append(w.order, shardOf(s.hash(req.Asks[i].FormerKey())))
		}
	}
	slices.Sort(w.order)
	w.order = slices.Compact(w.order)
	for _, i := range w.order {
		s.shards[i].mu.Lock()
	}
	defer s.unlock(w.order)
	at = s.instant()
	res.Limits = res.Limits[:0]
	for i := range req.Asks {
		res.Limits = append(res.Limits, limiter.Decision{})
		w.changed[i], w.charged[i] = false, limiter.Charged{}
		sh := &s.shards[shardOf(w.hashes[i])]
		sh.load(w.hashes[i], &req.Asks[i], &w.values[i])
		w.sums[i] = sh.loadSums(w.hashes[i], &req.Asks[i])
		w.moved[i] = s.moveFormer(&req.Asks[i], &w.values[i], at.now)
	}
	res.Replayed, res.At = false, at.now
	s.decideAll(req, rec, w.states[:n], w.sums[:n], at.now, w.changed[:n], w.charged[:n], res)
	for i := range req.Asks {
		a := &req.Asks[i]
		sh := &s.shards[shardOf(w.hashes[i])]
		// Search again: storing another key may have moved it.
		old := sh.buckets.find(w.hashes[i], newBucketKey(a.Key))
		s.store(sh, w.hashes[i], a, old, req.Op, &w.values[i], w.changed[i] || w.moved[i], at)
		s.storeSums(sh, w.hashes[i], a, w.sums[i], req.Sums, at)
		if w.charged[i].Weight > 0 {
			needed = max(needed, limiter.Expires(a.Limit, &w.values[i])-at.now)
		}
	}
	return at, needed
}

// moveFormer moves what is spent in the former bucket of a, if there is one, to the state of a, and deletes it. The
// caller holds the locks of both. It reports whether it changed the state.
func (s *Store) moveFormer(a *limiter.Ask, to *limiter.State, now int64) bool {
	if a.Former == nil {
		return false
	}
	key := a.FormerKey()
	hash := s.hash(key)
	sh := &s.shards[shardOf(hash)]
	old := sh.buckets.find(hash, newBucketKey(key))
	if old == nil {
		return false
	}
	former := old.value
	moved := limiter.Move(a, &former, to, now)
	sh.buckets.remove(hash, newBucketKey(key))
	s.keys.Add(-1)
	return moved
}

func (s *Store) unlock(shards []int) {
	for _, i := range slices.Backward(shards) {
		s.shards[i].mu.Unlock()
	}
}
