package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// servers are the servers that a store's client calls, each with its breaker, and the goroutines that probe them.
type servers struct {
	script  *script.Script
	empty   []byte // a script call without requests
	limit   time.Duration
	fair    time.Duration // a server that has had a call for so long has had its time
	changed func(BreakerChange)
	now     func() time.Time

	ctx    context.Context //nolint:containedctx // ends the probes when the store closes
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	all    []*server
}

// server is one server behind its breaker. Only script calls concern the breaker: their callers ask admit first and
// report the result.
type server struct {
	*breaker
	client redis.UniversalClient
	of     *servers
	// silent is for how long, in ns and in all, the server has had calls since its last answer that ended before their
	// time because of their callers' own deadlines.
	silent      atomic.Int64
	dialing     atomic.Int32  // connections that are being made
	dialTimeout time.Duration // how long that may take; 0: unknown
}

// fairPart: at most one part in fairPart+1 of the store timeout is reserved for the answer, and the rest belongs to the
// server.
const fairPart = 5

func newServers(s *Store) *servers {
	_, empty := script.Encode(nil, nil)
	ss := &servers{script: &s.script, empty: empty, limit: s.opt.ProbeLimit,
		fair: s.opt.ProbeLimit * fairPart / (fairPart + 1), changed: s.opt.OnBreaker, now: wallTime}
	ss.ctx, ss.cancel = context.WithCancel(context.Background())
	return ss
}

// add adds a server. A new client for a known address takes over its place.
func (ss *servers) add(client redis.UniversalClient) *server {
	sv := &server{client: client, of: ss, breaker: &breaker{changed: ss.changed}}
	if c, ok := client.(*redis.Client); ok {
		sv.node, sv.dialTimeout = c.Options().Addr, c.Options().DialTimeout
	}
	sv.watch = func(b *breaker) {
		ss.spawn(func() {
			if !b.watchUntil(ss.ctx, ss.now, sv.probe) {
				ss.drop(sv)
			}
		})
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return sv
	}
	ss.all = slices.DeleteFunc(ss.all, func(old *server) bool { return old.node == sv.node })
	ss.all = append(ss.all, sv)
	client.AddHook(dialHook{sv})
	return sv
}

// of finds the server of a client, nil if it is not one of those added.
func (ss *servers) of(client *redis.Client) *server {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, sv := range ss.all {
		if sv.client == redis.UniversalClient(client) {
			return sv
		}
	}
	return nil
}

// drop forgets a server that has left the cluster.
func (ss *servers) drop(sv *server) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.all = slices.DeleteFunc(ss.all, func(old *server) bool { return old == sv })
}

// spawn runs f in a goroutine that close waits for.
func (ss *servers) spawn(f func()) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.closed {
		ss.wg.Go(f)
	}
}

// close ends the probes.
func (ss *servers) close() {
	ss.mu.Lock()
	ss.closed = true
	ss.mu.Unlock()
	ss.cancel()
	ss.wg.Wait()
}

// snapshot returns the servers that the client still calls. The client closes its connections to a server that left the
// cluster a minute after it noticed.
func (ss *servers) snapshot() []Breaker {
	ss.mu.Lock()
	if !ss.closed {
		ss.all = slices.DeleteFunc(ss.all, func(sv *server) bool { return sv.left() })
	}
	all := slices.Clone(ss.all)
	ss.mu.Unlock()
	out := make([]Breaker, len(all))
	for i, sv := range all {
		out[i] = sv.snapshot(ss.now())
	}
	slices.SortFunc(out, func(a, b Breaker) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return out
}

// Breakers shows the breaker of each server that has been talked to, in order
// of address.
func (s *Store) Breakers() []Breaker { return s.servers.snapshot() }

// probe runs the script without requests: a missing permission, a lack of memory or a primary that is not writable
// makes it fail too, and it writes nothing. The connection may take probeWait: a frozen server answers as soon as it
// continues, while a lost message must be given up and sent again. The script may take only as long as a check.
func (sv *server) probe(ctx context.Context) error {
	dial, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := sv.client.Ping(dial).Err(); err != nil && !isReply(err) {
		return err
	}
	call, release := newCallTime(ctx, limits{limit: sv.of.limit})
	defer release()
	_, err := run(call, sv.client, sv.of.script, nil, sv.of.empty)
	return err
}

// clientClosed reports whether the error means that the client is closed: its server has left the cluster.
func clientClosed(err error) bool { return errors.Is(err, redis.ErrClosed) }

// left reports whether the client of this server was closed for good. It sends
// nothing: a closed client says so before it looks at the context.
func (sv *server) left() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return clientClosed(sv.client.Ping(ctx).Err())
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// judge reports to the breaker how a call ended that was admitted, and returns that and the error.
func (sv *server) judge(c *callTime, err error) (ended, error) {
	if err == nil {
		sv.report(c.began, healthy, "", nil)
		sv.heard()
		return succeeded, nil
	}
	if c.unwritten(err, sv.dialing.Load() > 0) {
		return nothing, errUnwritten
	}
	now := sv.of.now()
	se := Classify(err)
	v := verdictOf(se, isReply(err))
	if se.Cause == limiter.CauseTimeout && v == failing && !sv.hadItsTime(c, now) {
		v = inconclusive
		if c.had(now) < sv.of.fair/2 && c.had(now) < c.limit/2 {
			se.Cause = limiter.CauseStarved // the caller's own deadline passed, mostly before the call was written
		}
	}
	sv.report(now, v, se.Cause, se.Err)
	switch v {
	case healthy:
		sv.heard()
		return succeeded, se
	case failing:
		if se.Cause == limiter.CauseTimeout || errors.Is(err, os.ErrDeadlineExceeded) { // the deadline of a dial
			return silent, se
		}
		return failed, se
	case inconclusive:
	}
	return nothing, se
}

// heard notes that the server has answered.
func (sv *server) heard() {
	if sv.silent.Load() != 0 {
		sv.silent.Store(0)
	}
}

// hadItsTime reports whether the server has had its time for a call that timed out: for this call alone, or for several
// since its last answer together, if their callers' own deadlines ended them.
func (sv *server) hadItsTime(c *callTime, now time.Time) bool {
	had := c.had(now)
	return had >= sv.of.fair || time.Duration(sv.silent.Add(int64(had))) >= sv.of.fair
}

// verdictOf says what a failed call tells about the server that has had its time.
func verdictOf(se *limiter.StoreError, reply bool) verdict {
	switch se.Cause {
	case limiter.CauseConnection, limiter.CauseReadOnly, limiter.CauseLoading, limiter.CauseMemory, limiter.CauseAuth:
		return failing
	case limiter.CauseTimeout:
		if reply {
			return healthy // the script's own: the limits of a request had ended when it ran
		}
		return failing
	case limiter.CauseBusy:
		if reply {
			return failing
		}
		return inconclusive // our own pool is busy
	case limiter.CauseCanceled, limiter.CauseClosed, limiter.CauseCluster, limiter.CauseBreaker:
		return inconclusive
	}
	return healthy // it answered; the fault is in one request or in the script
}

// dialHook is the hook of a client that watches its attempts to connect.
type dialHook struct{ *server }

// ProcessHook leaves commands alone.
func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves pipelines alone.
func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// DialHook hands out a line, and a connection that fails at its first use instead of a
// failed attempt. The client counts failed attempts and, after as many as its
// pool has room for, stops dialling but once a second; when to try again is the
// breaker's decision.
func (d dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d.dialing.Add(1)
		defer d.dialing.Add(-1)
		began := wallTime()
		c, err := next(ctx, network, addr)
		switch {
		case err == nil:
			return newLine(c), nil
		case d.of.ctx.Err() == nil:
			took := wallTime().Sub(began)
			return &undialled{&notDialled{err: err, late: d.dialTimeout > 0 && took > d.dialTimeout+lateness}}, nil
		}
		return nil, err
	}
}
