package nearstore

import (
	"context"
	"errors"

	"sluice/limiter"
)

// trip is one take on its way: what the caller asked, what is asked of the store
// in its place, and what this node has set aside for it meanwhile. Trips are
// pooled; a trip belongs to one goroutine.
type trip struct {
	req *limiter.Request
	// out is what goes to the store: req itself, or sub.
	out *limiter.Request
	sub limiter.Request
	res limiter.Result // of sub, while some limits are decided here
	// asks is the request as it is meant: with raised limits, and shards in place
	// of sharded buckets. Empty if that is req as it stands.
	asks []limiter.Ask
	hots [maxAsks]*hotKey
	// grants are what slices gave, by position; leased says how many.
	grants [maxAsks]grant
	leased int
	index  []int // of sub's asks, while leased > 0
	shards []sharding
	calls  []limiter.Call // the take and looks at other shards
	ready  bool           // looked up once: the next round only tries other shards
	call   int            // in a batch

	sent int64
	gens [maxAsks]uint64
}

func (s *Store) trip(req *limiter.Request) *trip {
	t, _ := s.trips.Get().(*trip) // the pool holds nothing else
	t.req, t.out = req, req
	return t
}

// home returns a trip to the pool without what it refers to.
func (s *Store) home(t *trip) {
	clear(t.asks)
	clear(t.sub.Asks)
	clear(t.shards)
	t.req, t.out = nil, nil
	t.asks, t.index, t.shards = t.asks[:0], t.index[:0], t.shards[:0]
	t.sub = limiter.Request{Asks: t.sub.Asks[:0]}
	if t.leased > 0 {
		clear(t.grants[:])
	}
	clear(t.hots[:])
	t.leased, t.ready = 0, false
	s.trips.Put(t)
}

// party is the trips of a batch that go to the store together, and the calls they
// go with. Parties are pooled.
type party struct {
	trips []*trip
	away  []limiter.Call
}

func (s *Store) party() *party {
	p, _ := s.parties.Get().(*party) // the pool holds nothing else
	return p
}

// maxParty keeps the memory of the largest batches out of the pool.
const maxParty = 1024

// disband returns a party to the pool without what it refers to.
func (s *Store) disband(p *party) {
	if cap(p.away) > maxParty {
		return
	}
	clear(p.trips)
	clear(p.away)
	p.trips, p.away = p.trips[:0], p.away[:0]
	s.parties.Put(p)
}

// meant is the request as it is meant.
func (t *trip) meant() *limiter.Request {
	if len(t.asks) == 0 {
		return t.req
	}
	room := t.sub.Asks[:0]
	t.sub = *t.req
	t.sub.Asks = room
	t.sub.Asks = append(t.sub.Asks, t.asks...)
	return &t.sub
}

// near answers a take without the store if it can. Otherwise t.out is what the
// store must be asked.
func (s *Store) near(ctx context.Context, t *trip, res *limiter.Result) bool {
	if ctx.Err() != nil {
		return false // the store says so in its own words
	}
	now := s.tick()
	if !t.ready {
		t.ready = true
		s.prepare(t, now)
	}
	for {
		t.out = t.meant()
		cached := s.deny != nil && s.deny.answer(t.out, res, now)
		if !cached && !s.fromSlices(ctx, t, res) {
			return false
		}
		if res.Allowed || !s.again(t, res) {
			return true
		}
	}
}

// prepare counts the take, and puts in place of its limits what they are meant
// to be: raised while hot, or a shard.
func (s *Store) prepare(t *trip, now int64) {
	if s.heat == nil {
		return
	}
	plain := true
	for i := range t.req.Asks {
		a := &t.req.Asks[i]
		var h *hotKey
		if a.Weight > 0 {
			h = s.touch(a, now)
		}
		if i < maxAsks {
			t.hots[i] = h
		}
		plain = plain && (a.Hot != limiter.HotSharded && (h == nil || a.Hot == limiter.HotExact || a.HotRaise <= 0))
	}
	if plain {
		return
	}
	t.asks = append(t.asks[:0], t.req.Asks...)
	for i := range t.asks {
		a := &t.asks[i]
		hot := i < maxAsks && t.hots[i] != nil
		if hot && a.Hot != limiter.HotExact {
			a.Limit = a.Limit.Raise(a.HotRaise)
		}
		if sh, ok := s.shard(a, i, t.req.ID, hot); ok {
			t.shards = append(t.shards, sh)
		}
	}
}

// fromSlices sets units aside for the limits that this node holds slices of and
// answers the take if there are no others.
func (s *Store) fromSlices(ctx context.Context, t *trip, res *limiter.Result) bool {
	m := t.out
	if s.heat == nil || m.ID != "" || len(m.Asks) > maxAsks {
		return false
	}
	for i := range m.Asks {
		h, a := t.hots[i], &m.Asks[i]
		if h == nil || a.Hot != limiter.HotLeased || a.Look || a.Weight < 1 || !leasable(&a.Limit) {
			continue
		}
		if m.Check() != nil {
			return false
		}
		if s.lease(ctx, h, a, len(m.Asks) == 1, &t.grants[i]) {
			t.leased++
		}
	}
	switch t.leased {
	case 0:
		return false
	case len(m.Asks):
		res.Allowed, res.Replayed, res.Limits = true, false, res.Limits[:0]
		for i := range m.Asks {
			g := &t.grants[i]
			res.Allowed, res.At = res.Allowed && !g.dry, max(g.at, 0)
			res.Limits = append(res.Limits, g.d)
		}
		return true
	}
	s.rest(t, m)
	return s.deny != nil && s.deny.answer(t.out, &t.res, s.tick()) && s.joined(t, res, nil)
}

// rest makes out of what slices did not give.
func (s *Store) rest(t *trip, m *limiter.Request) {
	if len(t.asks) == 0 {
		t.asks = append(t.asks, m.Asks...)
	}
	asks := t.sub.Asks[:0]
	t.sub = *m
	t.sub.Asks = asks
	t.index = t.index[:0]
	for i := range t.asks {
		if t.grants[i].h == nil {
			t.sub.Asks = append(t.sub.Asks, t.asks[i])
			t.index = append(t.index, i)
		}
	}
	t.out = &t.sub
}

// depart notes what must be known from before the store is asked.
func (t *trip) depart(s *Store) {
	if s.deny != nil && len(t.out.Asks) <= maxAsks {
		s.deny.generations(t.out.Asks, &t.gens)
	}
	t.sent = s.tick()
}

// into is where the store's answer goes.
func (t *trip) into(res *limiter.Result) *limiter.Result {
	if t.leased > 0 {
		return &t.res
	}
	return res
}

// arrive takes in what the store said.
func (s *Store) arrive(t *trip, res *limiter.Result, err error) {
	if err == nil {
		answer := t.into(res)
		s.learn(t, answer)
	}
	if t.leased > 0 {
		s.joined(t, res, err)
	}
}

func (s *Store) learn(t *trip, answer *limiter.Result) {
	if s.deny != nil && !answer.Replayed {
		if answer.Allowed {
			s.deny.admitted(t.out.Asks)
		} else {
			s.deny.learn(t.out, answer, t.sent, s.tick(), &t.gens)
		}
	}
	if s.heat == nil || t.leased > 0 || len(t.out.Asks) > maxAsks {
		return
	}
	for i := range t.out.Asks {
		if h := t.hots[i]; h != nil && i < len(answer.Limits) {
			h.saw(&t.out.Asks[i], &answer.Limits[i])
			if !answer.Allowed && len(t.out.Asks) == 1 {
				h.denied(&t.out.Asks[i], &answer.Limits[i], answer.At, t.sent, s.tick())
			}
		}
	}
}

// joined puts together what slices and the store decided: all of it, or, if the
// store denied or could not decide, nothing, and the units go back to the
// slices. It returns true.
func (s *Store) joined(t *trip, res *limiter.Result, err error) bool {
	keep := err == nil && t.res.Allowed
	var se *limiter.StoreError
	if errors.As(err, &se) && se.Unknown {
		keep = true // perhaps applied: charged rather than not
	}
	for i := range t.asks {
		if g := &t.grants[i]; g.h != nil && !keep {
			g.undo()
		}
	}
	if err == nil {
		res.Allowed, res.Replayed, res.At, res.Limits = t.res.Allowed, false, t.res.At, res.Limits[:0]
		n := 0
		for i := range t.asks {
			if t.grants[i].h != nil {
				res.Limits = append(res.Limits, t.grants[i].d)
				continue
			}
			res.Limits = append(res.Limits, t.res.Limits[n])
			n++
		}
	}
	clear(t.grants[:])
	t.leased = 0
	return true
}
