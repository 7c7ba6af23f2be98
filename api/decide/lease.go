package decide

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/wire"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// A lease token identifies the concurrency leases of one allowed answer, so that they can be
// released and renewed without the descriptor. It is base64url of
//
//	version (1), store (0 shared, 1 local, 2 stated by each call), calls
//	each call: its store (0 or 1) if stated, length of id, id, asks
//	each ask: length of key, key, limit, window_ms
//
// with numbers as uvarints. Different stores may have decided the limits of one answer: an
// enforced one by Redis and a shadow one by this node. The token is neither secret nor signed:
// a caller with the right to check may release any lease whose id it knows.
const (
	leaseVersion  = 1
	leaseShared   = 0
	leaseLocal    = 1
	leaseMixed    = 2
	maxLeaseToken = 48 << 10
	maxLeaseKey   = 2048
)

// ErrBadLease means that a lease token was not created by this service, or was truncated.
var ErrBadLease = errors.New("not a lease token")

// leaseToken returns the token of the leases that plan p took, "" if it took none.
func leaseToken(w *work, p *plan, a *Answer) string {
	first := 0
	var stores []byte // of each call that took leases
	var bodies [][]byte
	for i := p.from; i < p.to; i++ {
		call := &w.calls[i]
		limits := 1
		if i == p.from && p.enforced > 0 {
			limits = p.enforced
		}
		asks, n, store := []byte(nil), 0, byte(leaseShared)
		for k := range limits { // pools come after them
			ask, la := &call.Request.Asks[w.limits[p.first+first+k].ask], &a.Limits[first+k]
			if !ask.Limit.Algorithm.Traits().Slots || ask.Weight == 0 || ask.Look || !la.Known || !la.Decision.Allowed {
				continue
			}
			if la.Degraded == rules.FailLocal {
				store = leaseLocal
			}
			asks = wire.AppendText(asks, string(ask.Key))
			asks = binary.AppendUvarint(asks, uint64(ask.Limit.Count))
			asks = binary.AppendUvarint(asks, uint64(ask.Limit.Window))
			n++
		}
		if n > 0 {
			body := wire.AppendText(nil, call.Request.ID)
			bodies = append(bodies, append(binary.AppendUvarint(body, uint64(n)), asks...))
			stores = append(stores, store)
		}
		first += limits
	}
	if len(bodies) == 0 {
		return ""
	}
	where := stores[0]
	if slices.ContainsFunc(stores, func(s byte) bool { return s != where }) {
		where = leaseMixed
	}
	token := binary.AppendUvarint([]byte{leaseVersion, where}, uint64(len(bodies)))
	for i, body := range bodies {
		if where == leaseMixed {
			token = append(token, stores[i])
		}
		token = append(token, body...)
	}
	return base64.RawURLEncoding.EncodeToString(token)
}

// Lease releases (OpRelease) or renews (OpRenew) the leases of a token. To release leases that
// have ended is no error and gives back nothing; to renew them is not allowed. The error is
// ErrBadLease or the store's. from is for records only.
func (c *Checker) Lease(ctx context.Context, op limiter.Op, token string, from Origin, a *Answer) error {
	if c.opt.Trace == nil {
		return c.lease(ctx, op, token, &from, a)
	}
	return c.traced(ctx, &from, a, func(ctx context.Context) error { return c.lease(ctx, op, token, &from, a) })
}

func (c *Checker) lease(ctx context.Context, op limiter.Op, token string, from *Origin, a *Answer) error {
	shared, local, err := parseLease(token, op)
	if err != nil {
		return err
	}
	if c.opt.Local == nil {
		shared, local = append(shared, local...), nil
	}
	if timeout := c.timeout(shared); timeout > 0 {
		b := c.within(ctx, timeout)
		defer b.release()
		ctx = b
	}
	start := c.opt.Now()
	if len(local) > 0 { // first, because it takes no time and Redis may use up the deadline
		c.opt.Local.DoAll(ctx, local)
	}
	if len(shared) > 0 {
		c.opt.Store.DoAll(ctx, shared)
		c.opt.Ledger.mirrorLeases(shared)
	}
	*a = Answer{Op: op, Verdict: Allowed, Strictest: -1, Limits: a.Limits[:0]}
	set := c.opt.Sets.Load()
	var id string
	for _, call := range append(shared, local...) {
		if id == "" { // the id of the enforced limits, which come first
			id = call.Request.ID
		}
		if call.Err != nil {
			c.observeFailure(call.Err)
			return call.Err
		}
		a.leases(set, &call)
	}
	c.opt.Observe.ObserveDecision(&Decision{Answer: a, Took: c.opt.Now().Sub(start), ID: id, Origin: *from})
	return nil
}

func (a *Answer) leases(set *match.Set, call *limiter.Call) {
	a.At = call.Result.At
	for i := range call.Request.Asks {
		la := LimitAnswer{Key: call.Request.Asks[i].Key, Limit: call.Request.Asks[i].Limit, Decision: call.Result.Limits[i],
			Known: true}
		if r := ruleOfKey(set, la.Key); r != nil {
			la.Rule, la.Shadow, la.Notify = r.Rule.Name, r.Shadow, r.Notify
		} else {
			la.Direct = true
		}
		a.Limits = append(a.Limits, la)
		if la.Shadow {
			continue
		}
		if !la.Decision.Allowed {
			a.Verdict = Denied
		}
		if n := len(a.Limits) - 1; a.Strictest < 0 || la.Decision.StricterThan(a.Limits[a.Strictest].Decision) {
			a.Strictest = n
		}
	}
}

// ruleOfKey returns the rule that a bucket belongs to, nil if it is not in force.
func ruleOfKey(set *match.Set, key limiter.Key) *match.Compiled {
	parts := strings.Split(string(key), "|")
	if set == nil || len(parts) != 3 {
		return nil
	}
	id, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil
	}
	return set.Get(id)
}

// parseLease reads a token and returns the calls for op, by store.
func parseLease(token string, op limiter.Op) (shared, local []limiter.Call, err error) {
	if len(token) > maxLeaseToken {
		return nil, nil, ErrBadLease
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 3 || b[0] != leaseVersion || b[1] > leaseMixed {
		return nil, nil, ErrBadLease
	}
	r := wire.Read(b[2:])
	n := r.Number(limiter.MaxLimits)
	for range n {
		where := int64(b[1])
		if where == leaseMixed {
			where = r.Number(leaseLocal)
		}
		call := limiter.Call{Request: limiter.Request{Op: op, ID: r.Text(64)}}
		for range r.Number(limiter.MaxLimits) {
			key := r.Text(maxLeaseKey)
			l := limiter.Limit{Algorithm: limiter.Concurrency, Count: r.Number(limiter.MaxSlots),
				Window: r.Number(limiter.MaxWindow)}
			if !isLeaseKey(key) || l.Validate() != nil {
				return nil, nil, ErrBadLease
			}
			call.Request.Asks = append(call.Request.Asks, limiter.Ask{Key: limiter.Key(key), Limit: l})
		}
		if r.Failed() || call.Request.ID == "" || call.Request.Check() != nil {
			return nil, nil, ErrBadLease
		}
		if where == leaseLocal {
			local = append(local, call)
		} else {
			shared = append(shared, call)
		}
	}
	if n == 0 || !r.Done() {
		return nil, nil, ErrBadLease
	}
	return shared, local, nil
}

// isLeaseKey reports whether a key names a bucket of leases, so that a forged token cannot reach buckets of another
// kind.
func isLeaseKey(key string) bool {
	if !strings.HasPrefix(key, "{") || !strings.HasSuffix(key, "|"+limiter.Concurrency.Kind()) ||
		strings.Count(key, "|") != 2 {
		return false
	}
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}
