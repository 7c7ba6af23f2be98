package sim

import (
	"context"
	"slices"

	"sluice/limiter"
)

// Defect breaks the model on purpose, to test that the checks notice it.
type Defect uint8

// The defects. The zero value is a faithful store.
const (
	Faithful Defect = iota
	// ChargesDenied spends the weight of denied takes as well.
	ChargesDenied
	// ForgetsRecords never answers a repeat from its record.
	ForgetsRecords
	// KeepsHalf leaves the limits that fitted charged when another one denies.
	KeepsHalf
	// RefundsTwice does not remember what it has given back.
	RefundsTwice
	// AdmitsOneMore admits one unit more than the limit.
	AdmitsOneMore
	// KeepsRecords loses charges in a failover but not the records of them.
	KeepsRecords
	// HidesReplay does not mark repeated answers.
	HidesReplay
	// DropsCharge confirms every tenth write and forgets one of its buckets.
	DropsCharge
	// LosesMore loses one more write in a failover than it reports.
	LosesMore
)

// model is the simplest counter store: the functions of package limiter over two maps, with an
// undo log of its writes. Stored states and records are never changed in place, so a copy of a
// map is an image of the store. State is never dropped because of its age: stores must keep it
// at least as long as it counts and may keep it longer. It is not safe for concurrent use.
type model struct {
	clock      func() int64
	buckets    map[limiter.Key]*limiter.State
	records    map[recordName]*record
	log        []change
	replicated int    // number of changes in the log that no failover can lose
	writes     int    // number of writes that were made and not lost
	births     uint32 // of buckets
	defect     Defect
}

var _ limiter.Store = (*model)(nil)

// change is one write: the previous content and the request.
type change struct {
	buckets map[limiter.Key]*limiter.State
	name    recordName
	record  *record
	named   bool // a record was written
	req     limiter.Request
	now     int64
}

// recordName finds the record of a named request; see limiter.ReplayWindow.
type recordName struct{ tag, id string }

type record struct {
	at       int64
	allowed  bool
	keys     []limiter.Key
	charged  []limiter.Charged
	limits   []limiter.Decision
	refunded []bool
}

func newModel(clock func() int64, d Defect) *model {
	return &model{clock: clock, buckets: map[limiter.Key]*limiter.State{}, records: map[recordName]*record{}, defect: d}
}

// load copies a bucket's state, because kernels work in place.
func load(s *limiter.State) *limiter.State {
	if s == nil {
		return &limiter.State{}
	}
	c := *s
	c.Entries = slices.Clone(s.Entries)
	return &c
}

// look answers a peek on an image of the store without changing it.
func look(s *limiter.State, a limiter.Ask, id string, now int64) limiter.Decision {
	var changed [1]bool
	var out [1]limiter.Decision
	var charged [1]limiter.Charged
	limiter.Decide(limiter.OpPeek, []limiter.Ask{a}, id, []*limiter.State{load(s)}, now, changed[:], out[:], charged[:])
	return out[0]
}

// Do decides one request at the time of the clock. It fails only for a malformed request; the
// network simulates failures.
func (m *model) Do(_ context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := req.Check(); err != nil {
		return err
	}
	now := m.clock()
	name := recordName{req.Asks[0].Key.Tag(), req.ID}
	if rec := m.recordFor(req, name); rec != nil && rec.repeats(req, now) && m.defect != ForgetsRecords {
		*res = limiter.Result{Allowed: rec.allowed, Replayed: m.defect != HidesReplay, At: rec.at,
			Limits: slices.Clone(rec.limits)}
		return nil
	}
	n := len(req.Asks)
	*res = limiter.Result{Allowed: true, At: now, Limits: make([]limiter.Decision, n)}
	states, changed, charged := make([]*limiter.State, n), make([]bool, n), make([]limiter.Charged, n)
	for i := range req.Asks {
		states[i] = load(m.buckets[req.Asks[i].Key])
		if !states[i].Exists {
			m.births++
			states[i].Born = m.births
		}
	}
	ch := change{buckets: map[limiter.Key]*limiter.State{}, name: name, req: copyRequest(req), now: now}
	switch req.Op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		m.decide(req, states, changed, charged, now, res)
	default:
		m.giveBack(req, &ch, states, changed, now, res)
	}
	m.commit(req, &ch, states, changed, charged, res)
	return nil
}

// DoAll decides the calls independently, in order.
func (m *model) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = m.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

func (m *model) decide(req *limiter.Request, states []*limiter.State, changed []bool, charged []limiter.Charged,
	now int64, res *limiter.Result) {
	asks := req.Asks
	if m.defect == AdmitsOneMore {
		asks = slices.Clone(asks)
		for i := range asks {
			asks[i].Limit.Count++
			if asks[i].Limit.Algorithm.Bucketed() {
				asks[i].Limit.Burst++
			}
		}
	}
	res.Allowed = limiter.Decide(req.Op, asks, req.ID, states, now, changed, res.Limits, charged)
	if req.Op != limiter.OpTake || res.Allowed || (m.defect != ChargesDenied && m.defect != KeepsHalf) {
		return
	}
	for i := range asks {
		if asks[i].Weight > 0 && (m.defect == ChargesDenied || res.Limits[i].Allowed) {
			limiter.Decide(limiter.OpCharge, asks[i:i+1], req.ID, states[i:i+1], now, changed[i:i+1],
				make([]limiter.Decision, 1), make([]limiter.Charged, 1))
		}
	}
}

func (m *model) giveBack(req *limiter.Request, ch *change, states []*limiter.State, changed []bool, now int64,
	res *limiter.Result) {
	rec := m.recordFor(req, ch.name)
	for i := range req.Asks {
		a, d := &req.Asks[i], &res.Limits[i]
		switch {
		case req.Op == limiter.OpReset:
			changed[i] = states[i].Exists
			*states[i] = limiter.State{}
			*d, _ = limiter.RefundNow(a.Limit, states[i], now, 0)
		case req.Op == limiter.OpRenew:
			*d, changed[i] = limiter.Renew(a.Limit, states[i], now, req.ID)
		case req.Op == limiter.OpRelease, req.ID != "" && a.Limit.Algorithm.Traits().Slots:
			m.claim(rec, ch, a.Key) // a refund in part, though the lease is what ends
			*d, changed[i] = limiter.Release(a.Limit, states[i], now, req.ID)
		case req.ID != "":
			*d, changed[i] = limiter.Refund(a.Limit, states[i], now, m.claim(rec, ch, a.Key))
		default:
			*d, changed[i] = limiter.RefundNow(a.Limit, states[i], now, a.Weight)
		}
		res.Allowed = res.Allowed && d.Allowed
	}
}

// claim marks the charge of key as given back, in a copy of the record, and
// returns it.
func (m *model) claim(rec *record, ch *change, key limiter.Key) limiter.Charged {
	if rec == nil {
		return limiter.Charged{}
	}
	i := slices.Index(rec.keys, key)
	if i < 0 || rec.charged[i].Weight == 0 || (m.records[ch.name].refunded[i] && m.defect != RefundsTwice) {
		return limiter.Charged{}
	}
	if !ch.named {
		ch.named, ch.record = true, rec
	}
	next := *m.records[ch.name]
	next.refunded = slices.Clone(next.refunded)
	next.refunded[i] = true
	m.records[ch.name] = &next
	return rec.charged[i]
}

// commit stores changes and adds them to the log.
func (m *model) commit(req *limiter.Request, ch *change, states []*limiter.State, changed []bool,
	charged []limiter.Charged, res *limiter.Result) {
	spent := false
	for i := range req.Asks {
		spent = spent || charged[i].Weight > 0
		if !changed[i] {
			continue
		}
		key := req.Asks[i].Key
		if m.defect == DropsCharge && charged[i].Weight > 0 && m.writes%10 == 9 {
			continue
		}
		ch.buckets[key] = m.buckets[key]
		if req.Op == limiter.OpReset {
			delete(m.buckets, key)
		} else {
			m.buckets[key] = states[i]
		}
	}
	if spent && recorded(req) {
		ch.named, ch.record = true, m.records[ch.name]
		m.records[ch.name] = newRecord(req, res, charged)
	}
	if len(ch.buckets) > 0 || ch.named {
		m.log = append(m.log, *ch)
		m.writes++
	}
}

// undo reverts the last k writes, like a promoted replica that never received them.
func (m *model) undo(k int) {
	for ; k > 0 && len(m.log) > m.replicated; k-- {
		ch := m.log[len(m.log)-1]
		m.log = m.log[:len(m.log)-1]
		m.writes--
		m.restore(ch.buckets)
		switch {
		case !ch.named || m.defect == KeepsRecords:
		case ch.record == nil:
			delete(m.records, ch.name)
		default:
			m.records[ch.name] = ch.record
		}
	}
	if m.defect == LosesMore && len(m.log) > m.replicated {
		m.restore(m.log[len(m.log)-1].buckets)
	}
}

// restore restores the previous content of buckets.
func (m *model) restore(buckets map[limiter.Key]*limiter.State) {
	for key, old := range buckets {
		if old == nil {
			delete(m.buckets, key)
		} else {
			m.buckets[key] = old
		}
	}
}

// flush deletes everything permanently.
func (m *model) flush() {
	clear(m.buckets)
	clear(m.records)
	m.log, m.replicated = nil, 0
}

// recorded reports whether requests of this form leave a record when they spend.
func recorded(req *limiter.Request) bool {
	return req.ID != "" && (req.Op == limiter.OpTake || req.Op == limiter.OpCharge) &&
		slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool { return !a.Limit.Algorithm.Traits().Slots })
}

// recordOf returns the record with the request's name, whether or not the request uses it.
func (m *model) recordOf(req *limiter.Request) *record {
	if len(req.Asks) == 0 {
		return nil
	}
	return m.records[recordName{req.Asks[0].Key.Tag(), req.ID}]
}

// recordFor returns the record that a request may repeat or refund.
func (m *model) recordFor(req *limiter.Request, name recordName) *record {
	if recorded(req) || (req.ID != "" && req.Op == limiter.OpRefund) {
		return m.records[name]
	}
	return nil
}

func newRecord(req *limiter.Request, res *limiter.Result, charged []limiter.Charged) *record {
	r := &record{at: res.At, allowed: res.Allowed, charged: charged, limits: slices.Clone(res.Limits),
		refunded: make([]bool, len(charged))}
	for i := range req.Asks {
		r.keys = append(r.keys, req.Asks[i].Key)
	}
	return r
}

func (r *record) repeats(req *limiter.Request, now int64) bool {
	return req.Op != limiter.OpRefund && !slices.Contains(r.refunded, true) && now >= r.at &&
		now-r.at <= limiter.ReplayWindow &&
		slices.EqualFunc(r.keys, req.Asks, func(k limiter.Key, a limiter.Ask) bool { return k == a.Key })
}

func copyRequest(req *limiter.Request) limiter.Request {
	c := *req
	c.Asks = slices.Clone(req.Asks)
	return c
}
