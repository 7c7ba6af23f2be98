package nearstore

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"sluice/limiter"
)

const (
	// denyLife is the longest time for which a denial is cached, so that a lost message of
	// another node has no lasting effect.
	denyLife = time.Second
	// denyWorth is the shortest wait that is worth caching, ms.
	denyWorth = 3
	// denyVariants bounds the cached denials of one bucket: of different weights, or of a limit
	// before and after an edit.
	denyVariants = 8
	// denyStripes is the number of locks for drops and inserts of different keys.
	denyStripes = 256
)

// denial is the store's decision on one limit of a denied request.
type denial struct {
	// limit, weight and look identify the denial together with the key: any edit makes another denial.
	limit  limiter.Limit
	weight int64
	look   bool
	// sure: until then takes are denied, with figures that follow from these by time alone. Denials that are not sure
	// only accompany a sure one in the same answer.
	sure bool
	d    limiter.Decision
	// at is the store's time of the decision, ms; got when the answer arrived and
	// until when it ends, both on the local clock, ns.
	at, got, until int64
}

// denyCache remembers denials by bucket. It is bounded and safe for concurrent
// use.
type denyCache struct {
	cache   *otter.Cache[limiter.Key, []denial]
	seed    maphash.Seed
	stripes [denyStripes]stripe
	exact   bool // only requests all of whose limits deny for sure

	answered, remembered, dropped atomic.Int64
}

// stripe orders inserts and drops: an answer that was under way while its bucket
// was dropped is not remembered.
type stripe struct {
	mu  sync.Mutex
	gen atomic.Uint64
}

// newDenyCache returns a cache for size buckets.
func newDenyCache(size int, exact bool) (*denyCache, error) {
	// Maintenance runs on the caller, so that no goroutine is without an owner.
	c, err := otter.New(&otter.Options[limiter.Key, []denial]{MaximumSize: size, Executor: func(fn func()) { fn() }})
	if err != nil {
		return nil, err
	}
	return &denyCache{cache: c, seed: maphash.MakeSeed(), exact: exact}, nil
}

func (c *denyCache) stripe(k limiter.Key) *stripe {
	return &c.stripes[maphash.String(c.seed, string(k))%denyStripes]
}

// find is the live denial of an ask at local time now, nil if there is none. If the remembered denial is later than
// now, the clock was set back, and the denial is dropped.
func (c *denyCache) find(a *limiter.Ask, now int64) (found *denial) {
	es, ok := c.cache.GetIfPresent(a.Key)
	if !ok {
		return nil
	}
	for i := range es {
		e := &es[i]
		if now < e.got {
			c.drop(a.Key)
			return nil
		}
		if e.weight == a.Weight && e.look == a.Look && now < e.until && e.limit == a.Limit {
			found = e
		}
	}
	return found
}

// looked detects a clock that was set back when a request only looks.
func (c *denyCache) looked(asks []limiter.Ask, now int64) {
	if c.cache.EstimatedSize() == 0 {
		return
	}
	for i := range asks {
		c.find(&asks[i], now)
	}
}

// answer decides a take from memory if every limit of it is remembered and at least one surely denies. It reports
// whether it did.
func (c *denyCache) answer(req *limiter.Request, res *limiter.Result, now int64) bool {
	if len(req.Asks) > maxAsks {
		return false
	}
	var found [maxAsks]*denial
	sure, all := -1, true
	for i := range req.Asks {
		found[i] = c.find(&req.Asks[i], now)
		all = all && found[i] != nil
		if sure < 0 && found[i] != nil && found[i].sure {
			sure = i
		}
	}
	if sure < 0 || !all || req.ID != "" || req.Check() != nil {
		return false
	}
	res.Allowed, res.Replayed, res.Limits = false, false, res.Limits[:0]
	for _, e := range found[:len(req.Asks)] {
		res.Limits = append(res.Limits, e.after((now-e.got)/int64(time.Millisecond)))
	}
	res.At = found[sure].at + (now-found[sure].got)/int64(time.Millisecond)
	c.answered.Add(1)
	return true
}

// after is the decision so many ms later.
func (e *denial) after(ms int64) limiter.Decision {
	d := e.d
	if d.RetryAfter > 0 {
		d.RetryAfter = max(1, d.RetryAfter-ms)
	}
	if d.Reset > 0 {
		d.Reset = max(0, d.Reset-ms)
	}
	return d
}

// certainty is for how many ms after a denial its figures follow from time
// alone, 0 if they do not.
//
// Nothing remains, so no take of any weight can change the bucket before the wait is over. Remaining stays 0 until then
// if the weight is 1 (as soon as one unit fits, the request passes), or if the bucket empties all at once. The instants
// of retry and reset do not move: every algorithm computes them from its state, and a state that nobody changes is read
// the same later on. A ban denies until its end.
func certainty(a *limiter.Ask, d *limiter.Decision) int64 {
	if a.Limit.Algorithm == limiter.Ban {
		return d.RetryAfter // nothing lengthens it, and it allows while there is none
	}
	if d.Allowed || a.Weight < 1 || d.Remaining != 0 || a.Limit.Algorithm.Traits().Slots {
		return 0
	}
	switch {
	case a.Limit.Capacity() == 0:
		return denyLife.Milliseconds() // nothing ever passes, nothing ever remains
	case a.Weight > 1 && a.Limit.Algorithm.Traits().Decay != limiter.DecayAtOnce:
		return 0
	case d.RetryAfter != limiter.Never:
		return d.RetryAfter
	case a.Weight > 1:
		return d.Reset // above the limit: what remains changes with the window
	}
	return denyLife.Milliseconds() // a quota that never refills
}

// learn remembers a denied take that was sent at local time sent and answered at
// got. gens are the generations from before it was sent.
func (c *denyCache) learn(req *limiter.Request, res *limiter.Result, sent, got int64, gens *[maxAsks]uint64) {
	if len(req.Asks) > maxAsks || len(res.Limits) != len(req.Asks) {
		return
	}
	worth := false
	for i := range req.Asks {
		if req.Asks[i].Limit.Algorithm == limiter.Ban && res.Limits[i].Allowed {
			return // the store counts the denials until the ban begins
		}
		worth = worth || certainty(&req.Asks[i], &res.Limits[i]) >= denyWorth
	}
	if !worth {
		return
	}
	for i := range req.Asks {
		a, d := &req.Asks[i], &res.Limits[i]
		e := denial{limit: a.Limit, weight: a.Weight, look: a.Look, d: *d, at: res.At, got: got}
		e.d.BanBegan = false
		ms := certainty(a, d)
		switch {
		case c.exact && d.Used > d.Limit:
			continue // the use above the limit falls during the wait
		case ms >= denyWorth:
			e.sure = true
		case c.exact || a.Limit.Algorithm.Traits().Slots || len(req.Asks) == 1:
			continue
		case d.RetryAfter > 0:
			ms = d.RetryAfter
		default:
			ms = denyLife.Milliseconds()
		}
		// One ms less, because the store's clock shows whole ones: never longer
		// than the truth.
		e.until = sent + min(int64(denyLife), (ms-1)*int64(time.Millisecond))
		c.put(a.Key, &e, gens[i])
	}
}

func (c *denyCache) put(k limiter.Key, e *denial, gen uint64) {
	s := c.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen.Load() != gen {
		return
	}
	old, _ := c.cache.GetIfPresent(k)
	next := make([]denial, 0, len(old)+1)
	for i := range old {
		o := &old[i]
		if o.until > e.got && (o.weight != e.weight || o.look != e.look || o.limit != e.limit) {
			next = append(next, *o)
		}
	}
	if len(next) == denyVariants {
		next = next[1:]
	}
	c.cache.Set(limiter.Key(strings.Clone(string(k))), append(next, *e))
	c.remembered.Add(1)
}

// drop forgets a bucket, including denials that are about to be cached.
func (c *denyCache) drop(k limiter.Key) {
	s := c.stripe(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen.Add(1)
	if _, had := c.cache.Invalidate(k); had {
		c.dropped.Add(1)
	}
}

// admitted forgets the denials of buckets that have just admitted a request: under another limit,
// or because another node has given back units.
func (c *denyCache) admitted(asks []limiter.Ask) {
	for i := range asks {
		es, ok := c.cache.GetIfPresent(asks[i].Key)
		if !ok || asks[i].Weight == 0 {
			continue
		}
		for j := range es {
			if es[j].sure {
				c.drop(asks[i].Key)
				break
			}
		}
	}
}

// sweep drops expired denials.
func (c *denyCache) sweep(now int64) {
	for k, es := range c.cache.All() {
		live := false
		for i := range es {
			live = live || now < es[i].until
		}
		if !live {
			s := c.stripe(k)
			s.mu.Lock()
			c.cache.Invalidate(k)
			s.mu.Unlock()
		}
	}
}
