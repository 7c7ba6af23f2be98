package nearstore

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"

	"sluice/limiter"
)

const defaultShards = 8

// sharding is one limit of a take whose bucket is split. The take tries the shards one after another, beginning with
// first and wrapping around, until one admits.
type sharding struct {
	at     int // position among the asks
	whole  limiter.Ask
	n      int // shards
	before int // shards that the bucket had as Ask.Former; below 2 it was whole
	first  int
	next   int // how many came before the one whose turn it is
	single bool
	hot    bool             // its other parts are not looked at
	best   limiter.Decision // the least strict denial so far, with the sum of the remaining units of all of them
	rest   rest
}

// shard puts a shard in place of a sharded bucket, and reports whether it did.
// Cold buckets begin with the bucket's own key, so that they need no more than
// one; hot ones anywhere. A named request always has the same shard and no
// other, so that its record is found again.
func (s *Store) shard(a *limiter.Ask, at int, id string, hot bool) (sharding, bool) {
	n := s.shards(a)
	if n < 2 {
		return sharding{}, false
	}
	sh := sharding{at: at, whole: *a, n: n, before: s.formerShards(a), hot: hot}
	switch {
	case id != "":
		sh.first, sh.single = shardOf(id, n), true
	case hot:
		sh.first = rand.IntN(n) //nolint:gosec // spreads load, guards nothing
	}
	sh.place(a)
	return sh, true
}

// shards is into how many keys an ask's bucket is split; below 2 it is not.
func (s *Store) shards(a *limiter.Ask) int { return s.shardsOf(a, &a.Limit) }

// formerShards is into how many the bucket of Ask.Former was split.
func (s *Store) formerShards(a *limiter.Ask) int {
	if a.Former == nil {
		return 0
	}
	return s.shardsOf(a, a.Former)
}

func (s *Store) shardsOf(a *limiter.Ask, l *limiter.Limit) int {
	if a.Hot != limiter.HotSharded || s.sketch == nil || !l.Algorithm.Traits().Divisible {
		return 0
	}
	n := min(int64(s.opt.Shards), l.Count)
	if l.Algorithm.Bucketed() {
		n = min(n, l.Burst)
	}
	return int(n)
}

// shardOf is the shard of a named request, the same on every node.
func shardOf(id string, n int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))        // never fails
	return int(h.Sum64() % uint64(n)) //nolint:gosec // below n
}

// place makes a the shard whose turn it is.
func (sh *sharding) place(a *limiter.Ask) { *a = sh.part(sh.next) }

// part is the shard that is i places behind the first.
func (sh *sharding) part(i int) limiter.Ask {
	i = (sh.first + i) % sh.n
	a := sh.whole
	if a.Former != nil {
		a.Former = sh.former(i)
	}
	a.Key, a.Limit = shardKey(a.Key, i), shardLimit(a.Limit, i, sh.n)
	return a
}

// former is the limit that shard i had as Ask.Former, nil if there was none. Each moves what it holds itself: what
// others hold, where there were more than there are now, does not move.
func (sh *sharding) former(i int) *limiter.Limit {
	l := *sh.whole.Former
	switch {
	case sh.before > 1 && i < sh.before:
		l = shardLimit(l, i, sh.before)
	case sh.before > 1 || i > 0:
		return nil
	}
	return &l
}

// shardLimit is the part of a limit that shard i of n enforces. The parts add up
// to the limit.
func shardLimit(l limiter.Limit, i, n int) limiter.Limit {
	part := func(v int64) int64 {
		p := v / int64(n)
		if int64(i) < v%int64(n) {
			p++
		}
		return p
	}
	l.Count, l.Burst = part(l.Count), part(l.Burst)
	return l
}

// shardKey is the key of shard i: the bucket's own for 0, else with a mark at the
// end of the entity, which gives it another hash slot. No value makes the mark:
// in a key % is followed by two hexadecimal digits or by h.
func shardKey(k limiter.Key, i int) limiter.Key {
	if i == 0 {
		return k
	}
	end := strings.IndexByte(string(k), '}')
	if end < 0 {
		end = len(k)
	}
	return k[:end] + "%s" + limiter.Key(strconv.Itoa(i)) + k[end:]
}

// nextShard sends a denied take to the next shard, if every limit that denied it
// has one. Otherwise it makes res the answer for the whole buckets.
func (s *Store) nextShard(r *request, res *limiter.Result) bool {
	more := !res.Allowed
	for i := range res.Limits {
		if !res.Limits[i].Allowed {
			sh := r.sharding(i)
			more = more && sh != nil && !sh.single && sh.next+1 < sh.n
		}
	}
	if !more {
		for i := range r.shards {
			sh := &r.shards[i]
			res.Limits[sh.at] = sh.summary(res.Limits[sh.at])
		}
		return false
	}
	for i := range res.Limits {
		if !res.Limits[i].Allowed {
			sh := r.sharding(i)
			sh.note(res.Limits[i])
			sh.next, sh.rest = sh.next+1, rest{}
			sh.place(&r.asks[i])
			s.count.probes.Add(1)
		}
	}
	return true
}

func (r *request) sharding(at int) *sharding {
	for i := range r.shards {
		if r.shards[i].at == at {
			return &r.shards[i]
		}
	}
	return nil
}

// note keeps the least strict denial, because the first shard that admits ends the wait. Remaining is the sum over the
// shards that denied.
func (sh *sharding) note(d limiter.Decision) {
	if sh.next == 0 {
		sh.best = d
		return
	}
	least := d
	if d.StricterThan(sh.best) {
		least = sh.best
	}
	least.Remaining, least.Used = d.Remaining+sh.best.Remaining, d.Used+sh.best.Used
	least.Reset = longer(d.Reset, sh.best.Reset)
	sh.best = least
}

// longer returns the longer of two waits. Never is the longest.
func longer(a, b int64) int64 {
	if a == limiter.Never || b == limiter.Never {
		return limiter.Never
	}
	return max(a, b)
}

// summary is the decision of the whole bucket, made from the decision of the last shard. Remaining is the sum over all
// shards if the others were looked at or have denied. Otherwise it is an estimate: the other shards are assumed to be
// as full as this one, because requests are spread over them.
func (sh *sharding) summary(d limiter.Decision) limiter.Decision {
	whole := sh.whole.Limit
	switch {
	case sh.rest.known:
		if !d.Allowed {
			last := d
			sh.note(d)
			d = sh.best
			d.Remaining, d.Used, d.Reset = last.Remaining, last.Used, last.Reset
			if sh.rest.most >= sh.whole.Weight { // another limit ended the search
				d.Allowed, d.RetryAfter = true, 0
			}
		}
		d.Remaining, d.Used = d.Remaining+sh.rest.remaining, d.Used+sh.rest.used
		d.Reset = longer(d.Reset, sh.rest.reset)
	case !d.Allowed:
		sh.note(d)
		d = sh.best
	default:
		d.Remaining = min(whole.Capacity(), d.Remaining*int64(sh.n-sh.next))
		d.Used = whole.Capacity() - d.Remaining
	}
	d.Limit, d.Rate = whole.Capacity(), whole.Rate()
	return d
}

// rewrites reports whether a request that is not a take names a sharded bucket.
func (s *Store) rewrites(req *limiter.Request) bool {
	for i := range req.Asks {
		if s.shards(&req.Asks[i]) > 1 {
			return true
		}
	}
	return false
}

// spread carries out an operation other than a take on every shard, in one request. A
// charge and a refund without an id are divided evenly; the record of a take with an id
// is on the shard that took it.
func (s *Store) spread(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := req.Check(); err != nil {
		return err
	}
	wide := *req
	wide.Asks = nil
	from := make([]int, 0, len(req.Asks)+1)
	for i := range req.Asks {
		from = append(from, len(wide.Asks))
		wide.Asks = s.spreadAsk(wide.Asks, req, &req.Asks[i])
	}
	from = append(from, len(wide.Asks))
	var all limiter.Result
	if err := s.inner.Do(ctx, &wide, &all); err != nil {
		return err
	}
	res.Allowed, res.Replayed, res.At, res.Limits = true, all.Replayed, all.At, res.Limits[:0]
	for i := range req.Asks {
		d := gather(req.Op, &req.Asks[i], all.Limits[from[i]:from[i+1]])
		res.Allowed = res.Allowed && d.Allowed
		res.Limits = append(res.Limits, d)
	}
	if req.Op == limiter.OpSettle {
		res.Allowed = all.Allowed
		s.lookAround(ctx, req, res)
	}
	for i := range wide.Asks {
		if s.deny != nil && req.Op != limiter.OpPeek {
			s.changed(wide.Asks[i].Key, lowers(req.Op), true)
		}
	}
	return nil
}

// spreadAsk appends the shards of one ask. The shard of a named request comes first, because its record belongs to the
// first key.
func (s *Store) spreadAsk(dst []limiter.Ask, req *limiter.Request, a *limiter.Ask) []limiter.Ask {
	n := s.shards(a)
	if n < 2 {
		return append(dst, *a)
	}
	sh := sharding{whole: *a, n: n, before: s.formerShards(a)}
	if req.ID != "" {
		sh.first = shardOf(req.ID, n)
	}
	many := n
	if req.Op == limiter.OpSettle {
		many = 1 // the record of a take
	}
	for ; sh.next < many; sh.next++ {
		var part limiter.Ask
		sh.place(&part)
		if req.Op == limiter.OpCharge || req.Op == limiter.OpRefund && req.ID == "" {
			part.Weight = shardLimit(limiter.Limit{Count: a.Weight}, sh.next, n).Count
		}
		dst = append(dst, part)
	}
	return dst
}

// gather combines the decisions of the shards into one.
func gather(op limiter.Op, a *limiter.Ask, ds []limiter.Decision) limiter.Decision {
	if len(ds) == 1 && op != limiter.OpSettle {
		return ds[0]
	}
	out := limiter.Decision{Limit: a.Limit.Capacity(), Rate: a.Limit.Rate(), Allowed: op == limiter.OpCharge,
		RetryAfter: limiter.Never}
	for i := range ds {
		d := &ds[i]
		out.Remaining, out.Used = out.Remaining+d.Remaining, out.Used+d.Used
		out.Reset = longer(out.Reset, d.Reset)
		out.Refunded += d.Refunded
		if op == limiter.OpCharge {
			out.Allowed = out.Allowed && d.Allowed
		} else {
			out.Allowed = out.Allowed || d.Allowed
		}
		if d.RetryAfter != limiter.Never && (out.RetryAfter == limiter.Never || d.RetryAfter < out.RetryAfter) {
			out.RetryAfter = d.RetryAfter
		}
	}
	if out.Allowed {
		out.RetryAfter = 0
	}
	return out
}
