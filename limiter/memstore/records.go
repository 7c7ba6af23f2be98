package memstore

import (
	"hash/maphash"
	"slices"
	"strings"

	"sluice/limiter"
)

// recordName identifies a request record: the entity of the first key and the
// request's ID.
type recordName struct{ tag, id string }

// record is the effect of a named request; see limiter.ReplayWindow for the rules.
type record struct {
	at      int64
	allowed bool // for snapshots: answer derives it
	keys    []limiter.Key
	charged []limiter.Charged
	limits  []limiter.Decision
	// refunded: a charge was given back. Its element of charged is zero.
	refunded bool
	// held by these attempts; nil for good, and not in snapshots.
	held []int64
	// settled has the decision of the settlement for each of keys, nil before it. A
	// denial stands for a key that was not settled.
	settled   []limiter.Decision
	settledAt int64

	// For the recordBook. number orders records by their arrival.
	name   recordName
	number uint64
	bytes  int64
	links  [2]recordLinks
}

// usesRecord reports whether the request reads or writes a record.
func usesRecord(req *limiter.Request) bool {
	if req.ID == "" {
		return false
	}
	switch req.Op {
	case limiter.OpRefund, limiter.OpSettle:
		return true
	case limiter.OpTake, limiter.OpCharge:
		return slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool { return !a.Limit.Algorithm.Traits().Slots })
	}
	return false
}

// hold lets an attempt hold the record, 0 for good.
func (r *record) hold(attempt int64) {
	switch {
	case r.held == nil || slices.Contains(r.held, attempt):
	case attempt == 0 || len(r.held) >= limiter.MaxAttempts:
		r.held = nil
	default:
		r.held = append(r.held, attempt)
	}
}

// letGo ends the hold of an attempt, and reports whether it was the last one.
func (r *record) letGo(attempt int64) bool {
	i := slices.Index(r.held, attempt)
	if i < 0 {
		return false
	}
	r.held = slices.Delete(r.held, i, i+1)
	return len(r.held) == 0
}

// refund marks the charge of key as refunded and returns it; the zero charge if there
// is none or it was refunded before. The receiver may be nil.
func (r *record) refund(key limiter.Key) limiter.Charged {
	if r == nil {
		return limiter.Charged{}
	}
	i := slices.Index(r.keys, key)
	if i < 0 || r.charged[i].Weight == 0 {
		return limiter.Charged{}
	}
	c := r.charged[i]
	r.refunded, r.charged[i] = true, limiter.Charged{}
	return c
}

// settle changes the charge at a.Key to a.Weight, or returns the decision of the
// first time. The receiver may be nil: then there is nothing to settle.
func (r *record) settle(
	a *limiter.Ask, s *limiter.State, sums *regional, now int64,
) (d limiter.Decision, changed bool) {
	i := -1
	if r != nil {
		i = slices.Index(r.keys, a.Key)
	}
	switch {
	case i >= 0 && r.settled != nil && r.settled[i].Allowed:
		d = r.settled[i]
		d.Rate = a.Limit.Rate()
		return d, false
	case r == nil || r.settled != nil:
		d, changed = limiter.RefundNow(a.Limit, s, now, 0)
		d.Allowed = r != nil
		return d, changed
	case i < 0 || a.Look || a.Limit.Algorithm.Traits().Slots:
		return limiter.RefundNow(a.Limit, s, now, 0)
	}
	d, changed = sums.settle(a.Limit, s, now, r.charged[i], a.Weight)
	r.charged[i].Weight = min(r.charged[i].Weight, a.Weight)
	return d, changed
}

// open reports whether the record can still be settled. The receiver may be nil.
func (r *record) open() bool { return r != nil && r.settled == nil && !r.refunded }

// storeSettlement stores the answer of a settlement.
func (r *record) storeSettlement(req *limiter.Request, res *limiter.Result) {
	r.settled, r.settledAt = make([]limiter.Decision, len(r.keys)), res.At
	for i := range req.Asks {
		if k := slices.Index(r.keys, req.Asks[i].Key); k >= 0 {
			r.settled[k] = res.Limits[i]
		}
	}
}

// repeats reports whether req is a repeat that gets the stored answer.
func (r *record) repeats(req *limiter.Request, now int64) bool {
	return (req.Op == limiter.OpTake || req.Op == limiter.OpCharge) && !r.refunded &&
		now >= r.at && now-r.at <= limiter.ReplayWindow && r.names(req.Asks)
}

// names reports whether the record names the keys of the asks in their order, without bans.
func (r *record) names(asks []limiter.Ask) bool {
	skip := func() {
		for len(asks) > 0 && asks[0].Limit.Algorithm == limiter.Ban {
			asks = asks[1:]
		}
	}
	for _, k := range r.keys {
		if limiter.IsBanKey(k) {
			continue
		}
		if skip(); len(asks) == 0 || asks[0].Key != k {
			return false
		}
		asks = asks[1:]
	}
	skip()
	return len(asks) == 0
}

// answer gives a repeat the stored answer. A charge during a ban that was removed since is then allowed.
func (r *record) answer(req *limiter.Request, res *limiter.Result) {
	res.Allowed, res.Replayed, res.At, res.Limits = true, true, r.at, res.Limits[:0]
	for i := range req.Asks {
		l := &req.Asks[i].Limit
		k := slices.Index(r.keys, req.Asks[i].Key)
		if k < 0 { // a ban that was added since
			res.Limits = append(res.Limits, limiter.Decision{Allowed: true, Limit: l.Count, Remaining: l.Count})
			continue
		}
		d := r.limits[k]
		if d.Rate < 0 { // snapshots have it only for charges
			d.Rate = l.Rate()
		}
		res.Allowed = res.Allowed && d.Allowed
		res.Limits = append(res.Limits, d)
	}
}

// doRecorded decides a request that reads or writes a record. Requests of one name
// run one at a time.
func (s *Store) doRecorded(req *limiter.Request, res *limiter.Result) {
	name := recordName{tag: req.Asks[0].Key.Tag(), id: req.ID}
	sh := s.recordShard(name.tag)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var rec *record
	found := sh.book.records.find(maphash.Comparable(s.seed, name), name)
	if found != nil {
		rec = found.value
	}
	if rec != nil && rec.repeats(req, s.instant().now) {
		rec.hold(req.Attempt)
		s.recordBytes.Add(sh.book.resize(s.seed, rec))
		rec.answer(req, res)
		return
	}
	if req.Op == limiter.OpRefund && req.Attempt != 0 && rec != nil && !rec.letGo(req.Attempt) {
		req, rec = nothingOf(req), nil
	}
	w := newWork(len(req.Asks))
	defer w.free()
	at, needed := s.doMany(req, res, w, rec)
	if req.Op == limiter.OpSettle && rec != nil {
		if req.OnlyKeeps() {
			if rec.open() {
				found.deadline = max(found.deadline, s.recordDeadline(req.Keep, at))
			}
			return
		}
		if rec.settled != nil {
			res.Replayed, res.At = true, rec.settledAt
			return
		}
		rec.storeSettlement(req, res)
		s.recordBytes.Add(sh.book.resize(s.seed, rec))
		found.deadline = max(found.deadline, s.recordDeadline(limiter.ReplayWindow, at))
		return
	}
	charged := w.charged[:len(req.Asks)]
	if slices.ContainsFunc(charged, func(c limiter.Charged) bool { return c.Weight > 0 }) {
		s.remember(sh, newRecord(req, res, charged), s.recordDeadline(req.RecordTTL(needed), at))
	}
}

// nothingOf is a refund of nothing from the buckets of req.
func nothingOf(req *limiter.Request) *limiter.Request {
	asks := slices.Clone(req.Asks)
	for i := range asks {
		asks[i].Weight = 0
	}
	return &limiter.Request{Op: limiter.OpRefund, Asks: asks}
}

// recordShard returns the shard with the records of an entity.
func (s *Store) recordShard(tag string) *recordShard {
	return &s.records[shardOf(maphash.String(s.seed, tag))]
}

// newRecord copies everything: the caller owns req and res.
func newRecord(req *limiter.Request, res *limiter.Result, charged []limiter.Charged) *record {
	rec := &record{at: res.At, allowed: res.Allowed, charged: slices.Clone(charged), limits: slices.Clone(res.Limits)}
	rec.keys = make([]limiter.Key, len(req.Asks))
	for i := range req.Asks {
		rec.keys[i] = limiter.Key(strings.Clone(string(req.Asks[i].Key)))
	}
	if req.Attempt != 0 {
		rec.held = []int64{req.Attempt}
	}
	rec.name = recordName{tag: rec.keys[0].Tag(), id: strings.Clone(req.ID)}
	return rec
}

// remember adds rec to its shard and replaces an older record of its name. If the
// entity then uses more than its part of the memory, its oldest records are
// dropped. The caller holds the shard's lock.
func (s *Store) remember(sh *recordShard, rec *record, deadline int64) {
	if old := sh.book.records.find(maphash.Comparable(s.seed, rec.name), rec.name); old != nil {
		s.dropRecord(sh, old.value)
	}
	rec.number, rec.bytes = s.recordNumber.Add(1), recordBytes(rec)
	sh.book.add(s.seed, rec, deadline)
	s.recordCount.Add(1)
	s.recordBytes.Add(rec.bytes)
	for e := sh.book.entityOf(s.seed, rec); e.bytes > s.maxRecordBytes/keyFraction && e.order.first != rec; {
		s.dropRecord(sh, e.order.first)
		s.droppedForKey.Add(1)
	}
	sh.publishOldest()
}

// dropRecord removes a record from its shard, whose lock the caller holds.
func (s *Store) dropRecord(sh *recordShard, r *record) {
	sh.book.remove(s.seed, r)
	s.recordCount.Add(-1)
	s.recordBytes.Add(-r.bytes)
	sh.publishOldest()
}

// dropOldestRecord drops the oldest record if memory is short.
func (s *Store) dropOldestRecord() {
	oldest := &s.records[0]
	for i := range s.records[1:] {
		if sh := &s.records[i+1]; sh.oldest.Load() < oldest.oldest.Load() {
			oldest = sh
		}
	}
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if r := oldest.book.order.first; r != nil && s.recordBytes.Load() > s.maxRecordBytes {
		s.dropRecord(oldest, r)
		s.droppedForRoom.Add(1)
	}
}
