package redisstore_test

import (
	"slices"

	"sluice/limiter"
)

// model is the store that package limiter describes: its functions over a map.
type model struct {
	states  map[limiter.Key]*limiter.State
	records map[string]*modelRecord
	births  uint32
}

type modelRecord struct {
	at        int64
	asks      []limiter.Ask
	charged   []limiter.Charged
	result    limiter.Result
	refunded  bool
	settled   map[limiter.Key]limiter.Decision // nil before it was
	settledAt int64                            // when it was settled
}

func newModel() *model {
	return &model{states: map[limiter.Key]*limiter.State{}, records: map[string]*modelRecord{}}
}

// load returns a copy of the state of k, so that only what is stored counts.
func (m *model) load(k limiter.Key) *limiter.State {
	s := m.states[k]
	if s == nil {
		m.births++
		return &limiter.State{Born: m.births}
	}
	c := *s
	c.Entries = slices.Clone(s.Entries)
	return &c
}

func recorded(req *limiter.Request) bool {
	return req.Op == limiter.OpRefund || req.Op == limiter.OpSettle ||
		slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool { return a.Limit.Algorithm != limiter.Concurrency })
}

func (m *model) do(req *limiter.Request, now int64) limiter.Result {
	switch req.Op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		return m.decide(req, now)
	case limiter.OpSettle:
		return m.settle(req, now)
	}
	res := limiter.Result{Allowed: true, At: now}
	rec := m.live(req)
	for i := range req.Asks {
		d := m.each(req, &req.Asks[i], rec, now)
		res.Limits = append(res.Limits, d)
		res.Allowed = res.Allowed && d.Allowed
	}
	return res
}

func (m *model) live(req *limiter.Request) *modelRecord {
	rec := m.records[req.ID]
	if req.ID == "" || rec == nil || !recorded(req) {
		return nil
	}
	return rec
}

func (m *model) replay(req *limiter.Request, now int64) *modelRecord {
	rec := m.live(req)
	if rec == nil || req.Op == limiter.OpPeek || rec.refunded || now < rec.at || now-rec.at > limiter.ReplayWindow {
		return nil
	}
	if !slices.Equal(limitsOf(rec.asks), limitsOf(req.Asks)) {
		return nil
	}
	return rec
}

// limitsOf lists the keys of asks without those of bans.
func limitsOf(asks []limiter.Ask) (keys []limiter.Key) {
	for _, a := range asks {
		if a.Limit.Algorithm != limiter.Ban {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// answer is the stored answer of a repeat, whose bans may be others.
func (r *modelRecord) answer(req *limiter.Request) limiter.Result {
	res := limiter.Result{Allowed: true, Replayed: true, At: r.at}
	for _, a := range req.Asks {
		d := limiter.Decision{Allowed: true, Limit: a.Limit.Count, Remaining: a.Limit.Count} // a ban that is new
		for i := range r.asks {
			if r.asks[i].Key == a.Key {
				d = r.result.Limits[i]
			}
		}
		res.Limits, res.Allowed = append(res.Limits, d), res.Allowed && d.Allowed
	}
	return res
}

func (m *model) decide(req *limiter.Request, now int64) limiter.Result {
	if rec := m.replay(req, now); rec != nil {
		return rec.answer(req)
	}
	n := len(req.Asks)
	states := make([]*limiter.State, n)
	for i := range req.Asks {
		states[i] = m.load(req.Asks[i].Key)
	}
	changed, out, charged := make([]bool, n), make([]limiter.Decision, n), make([]limiter.Charged, n)
	all := limiter.Decide(req.Op, req.Asks, req.ID, states, now, changed, out, charged)
	var spent int64
	for i := range req.Asks {
		if changed[i] {
			m.states[req.Asks[i].Key] = states[i]
		}
		spent += min(charged[i].Weight, 1)
	}
	res := limiter.Result{Allowed: all, At: now, Limits: out}
	if req.ID != "" && recorded(req) && spent > 0 {
		m.records[req.ID] = &modelRecord{at: now, asks: req.Asks, charged: charged, result: res}
	}
	return res
}

// each serves the operations that treat every ask by itself.
func (m *model) each(req *limiter.Request, a *limiter.Ask, rec *modelRecord, now int64) limiter.Decision {
	s := m.load(a.Key)
	var d limiter.Decision
	var did bool
	switch {
	case req.Op == limiter.OpReset:
		delete(m.states, a.Key)
		d, _ = limiter.Refund(a.Limit, &limiter.State{}, now, limiter.Charged{})
		return d
	case req.Op == limiter.OpRenew:
		d, did = limiter.Renew(a.Limit, s, now, req.ID)
	case req.Op == limiter.OpRelease, req.ID != "" && a.Limit.Algorithm == limiter.Concurrency:
		if req.Op == limiter.OpRefund {
			rec.claim(a.Key)
		}
		d, did = limiter.Release(a.Limit, s, now, req.ID)
	case req.ID == "":
		d, did = limiter.RefundNow(a.Limit, s, now, a.Weight)
	default:
		d, did = limiter.Refund(a.Limit, s, now, rec.claim(a.Key))
	}
	if did {
		m.states[a.Key] = s
	}
	return d
}

// settle makes a record weigh what the asks say, once.
func (m *model) settle(req *limiter.Request, now int64) limiter.Result {
	rec := m.records[req.ID]
	if rec != nil && rec.settled != nil {
		res := limiter.Result{Allowed: true, Replayed: true, At: rec.settledAt}
		for i := range req.Asks {
			d, ok := rec.settled[req.Asks[i].Key]
			d.Rate = req.Asks[i].Limit.Rate() // records do not keep it
			if s := m.load(req.Asks[i].Key); !ok {
				var did bool
				if d, did = limiter.RefundNow(req.Asks[i].Limit, s, now, 0); did {
					m.states[req.Asks[i].Key] = s
				}
			}
			res.Limits = append(res.Limits, d)
		}
		return res
	}
	res := limiter.Result{Allowed: rec != nil, At: now}
	for i := range req.Asks {
		a := &req.Asks[i]
		s, k := m.load(a.Key), -1
		if rec != nil {
			k = slices.IndexFunc(rec.asks, func(b limiter.Ask) bool { return a.Key == b.Key })
		}
		var d limiter.Decision
		var did bool
		if k < 0 || a.Look || a.Limit.Algorithm == limiter.Concurrency {
			d, did = limiter.RefundNow(a.Limit, s, now, 0)
		} else {
			d, did = limiter.Settle(a.Limit, s, now, rec.charged[k], a.Weight)
			rec.charged[k].Weight = min(rec.charged[k].Weight, a.Weight)
		}
		d.Allowed = rec != nil
		if did {
			m.states[a.Key] = s
		}
		res.Limits = append(res.Limits, d)
	}
	if rec != nil {
		rec.settled, rec.settledAt = map[limiter.Key]limiter.Decision{}, now
		for i := range req.Asks {
			if slices.ContainsFunc(rec.asks, func(b limiter.Ask) bool { return req.Asks[i].Key == b.Key }) {
				rec.settled[req.Asks[i].Key] = res.Limits[i]
			}
		}
	}
	return res
}

// claim returns what was charged at k and forgets it.
func (r *modelRecord) claim(k limiter.Key) limiter.Charged {
	if r == nil {
		return limiter.Charged{}
	}
	for i := range r.asks {
		if r.asks[i].Key == k && r.charged[i].Weight > 0 {
			c := r.charged[i]
			r.charged[i] = limiter.Charged{}
			r.refunded = true
			return c
		}
	}
	return limiter.Charged{}
}
