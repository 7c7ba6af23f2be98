package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// Options configure a Store. Client is required.
type Options struct {
	// Client talks to the servers; NewClient makes one with safe settings. The
	// store does not close it.
	Client redis.UniversalClient
	// Prefix starts every key, "sl:" if empty. It must not contain braces.
	Prefix string
	// PlainKeys keeps every name in Redis readable. Otherwise short keys have a packed name, which saves 16 bytes for
	// each bucket; KeyOf reads it. Names of a cluster are always readable. Nodes that share buckets must agree;
	// UsePlainKeys changes it later.
	PlainKeys bool
	// Clock replaces the server's clock, ms since the epoch; for tests. nil
	// means Redis TIME, read once in each script call.
	Clock func() int64
	// MaxBatch is the most requests one script call carries, 100 if 0.
	MaxBatch int
	// MaxQueue is the largest number of requests that wait for a script call on one dispatcher (see Store), 4096 if 0.
	// Further requests are refused with limiter.CauseOverload.
	MaxQueue int
	// MaxWait bounds the time that the server has for a call whose requests have no deadline. 1 s if 0.
	MaxWait time.Duration
	// OnBreaker, if not nil, is called when a breaker changes its state. It must not block.
	OnBreaker func(BreakerChange)
	// ProbeLimit is how quick a server must answer a probe to be let back in:
	// the time that a check may take. 25 ms if 0.
	ProbeLimit time.Duration
	// Regions are the regions that limits span; the zero value holds no take back.
	Regions limiter.Regions
	// Timings, if not nil, receives how long requests wait and how long calls take.
	Timings Timings
	// Trace, if not nil, records script calls.
	Trace Tracer
	// Lost is the time that this process was not run, since it started; it grows only. Nil means none.
	Lost func() time.Duration
}

// Timings counts the stages of requests. Its methods are called after each script call, whether or
// not it succeeded, by many goroutines. They must not block.
type Timings interface {
	// CalledAtOnce is called with the length of a script call, and how many requests it carried, none of which waited.
	CalledAtOnce(took time.Duration, requests int)
	// Called is called with the length of another script call, the number of requests that it
	// carried, and how long they had waited. The waits are not to be kept.
	Called(took time.Duration, requests int, waits []Wait)
}

// Wait is the time from the start of the check of one or more requests to the script call that carried them. Requests
// without a bound have no known start and are left out.
type Wait struct {
	Time     time.Duration
	Requests int
}

const (
	// inFlight is how many script calls of a dispatcher are under way at once. One
	// would leave Redis idle while an answer travels and is read; with two, one
	// runs while the other travels. The third is for the moments of a calm dispatcher
	// when three requests come close together: none waits for a whole round trip
	// first. More only make batches smaller, and the script runs on one thread in
	// any case.
	inFlight = 3
	// maxKeys bounds the keys of one script call.
	maxKeys = 512
)

// Store keeps buckets in Redis. It is safe for concurrent use.
//
// Requests go through a dispatcher: one for a single server, one for each of sixteen ranges of hash slots on a cluster.
// The code that only a cluster needs is behind cluster, in the files cluster_*.go.
type Store struct {
	opt         Options
	naming      naming
	names       script.Names // of naming
	script      script.Script
	dispatchers []*dispatcher
	servers     *servers
	server      *server  // the only one; nil on a cluster
	cluster     *cluster // nil on a single server
	changes     changes
	singles     sync.Pool // *batch of one request, which is there already
	batches     sync.Pool // *batch of up to MaxBatch requests
	wg          sync.WaitGroup
}

var _ limiter.Store = (*Store)(nil)

// New starts a store. It does not connect: a server that is unreachable shows in the
// first request. Close it to stop its goroutines.
func New(opt Options) (*Store, error) {
	if opt.Client == nil {
		return nil, errors.New("redisstore: a client is required")
	}
	if strings.ContainsAny(opt.Prefix, "{}") {
		return nil, fmt.Errorf("redisstore: prefix %q must not contain braces", opt.Prefix)
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	if opt.MaxBatch <= 0 {
		opt.MaxBatch = 100
	}
	if opt.MaxQueue <= 0 {
		opt.MaxQueue = 4096
	}
	if opt.MaxWait <= 0 {
		opt.MaxWait = time.Second
	}
	if opt.ProbeLimit <= 0 {
		opt.ProbeLimit = 25 * time.Millisecond
	}
	s := &Store{opt: opt, script: script.New()}
	s.singles.New = func() any {
		b := newBatch(1)
		b.add()
		return b
	}
	s.batches.New = func() any { return newBatch(opt.MaxBatch) }
	s.servers = newServers(s)
	dispatchers, plain := 1, opt.PlainKeys
	if client, ok := opt.Client.(*redis.ClusterClient); ok {
		dispatchers, plain = clusterDispatchers, true
		s.cluster = newCluster(s, client)
	} else {
		s.server = s.servers.add(opt.Client)
	}
	s.naming = newNaming(opt.Prefix, plain)
	s.names = script.Names{Prefix: opt.Prefix, Bucket: s.naming.bucket}
	for range dispatchers {
		d := newDispatcher(opt.MaxBatch, opt.MaxQueue)
		d.timings, d.lost = opt.Timings, opt.Lost
		s.dispatchers = append(s.dispatchers, d)
		for range inFlight {
			s.wg.Go(func() { s.work(d) })
		}
	}
	if s.cluster != nil {
		s.cluster.undos = s.cluster.newUndos() // it needs the dispatchers
	}
	return s, nil
}

// Close refuses further requests with limiter.CauseClosed, answers those that
// have been accepted and waits for its goroutines. It may be called twice.
func (s *Store) Close() error {
	if s.cluster != nil {
		s.cluster.finishUndos()
	}
	for _, d := range s.dispatchers {
		d.close()
	}
	s.wg.Wait()
	for _, d := range s.dispatchers {
		d.drain()
	}
	s.servers.close()
	if s.cluster != nil {
		s.cluster.view.close()
	}
	return nil
}

// longestCall is the longest that a caller makes its own script call: in that time it
// does not notice if it is canceled. The call of a caller with less than half of the server's fair time is the
// dispatcher's: the caller would end it before the server can answer, which says nothing about the server and costs a
// connection.
const longestCall = 100 * time.Millisecond

// Do decides one request within the deadline of ctx.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := req.Check(); err != nil {
		return err
	}
	if req.Op == limiter.OpPeek {
		if wide, ok := limiter.WideLook(req); ok {
			err := s.decide(ctx, &wide, res)
			if err == nil {
				limiter.Narrow(req, res)
			}
			return err
		}
	}
	return s.decide(ctx, req, res)
}

// decide decides a request, which is valid.
func (s *Store) decide(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if s.cluster != nil && s.cluster.spans(req) {
		return s.cluster.do(ctx, req, res)
	}
	err := s.do(ctx, req, res)
	if err != nil && s.cluster != nil && divided(req, err) {
		return s.cluster.apart(ctx, req, res)
	}
	return err
}

// do decides a request in one script call.
func (s *Store) do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	b, _ := s.singles.Get().(*batch)
	r, d := &b.requests[0], s.dispatchers[0]
	r.Encode(&s.names, req)
	if s.cluster != nil {
		r.Slot = slotOf(r.Keys[0])
		d = s.dispatchers[dispatcherOf(r.Slot)]
	}
	if err := s.send(ctx, d, b); err != nil {
		return err // b may still be in use
	}
	err := r.Err
	if err == nil {
		res.Allowed, res.Replayed, res.At = r.Result.Allowed, r.Result.Replayed, r.Result.At
		res.Limits = append(res.Limits[:0], r.Result.Limits...)
	}
	s.singles.Put(b)
	return err
}

// send gets the answers of b. After an error b may still be in use.
func (s *Store) send(ctx context.Context, d *dispatcher, b *batch) error {
	if s.opt.Trace != nil {
		s.trace(ctx, b)
	}
	bounded, ok := ctx.(limiter.Bounded)
	if !ok {
		if ctx.Err() != nil {
			return callerLeft(ctx, false)
		}
		deadline, _ := ctx.Deadline()
		b.await(terms{start: wallTime(), deadline: deadline}, ctx.Done())
		if err := d.submit(b); err != nil {
			return err
		}
		return d.wait(ctx, b.canceled, b)
	}
	bound := bounded.Bound()
	select {
	case <-bound.Canceled:
		return callerLeft(ctx, false)
	default:
	}
	b.bind(&bound)
	if b.leaveOut(d.isFailing()) {
		return nil // each of its requests has an error
	}
	if limit := b.limit(bound.Start); limit > longestCall || limit < s.servers.fair/2 {
		if err := d.submit(b); err != nil {
			return err
		}
		return d.wait(ctx, b.canceled, b)
	}
	call, ok, err := d.claim(b, bound.Start)
	switch {
	case err != nil:
		return err
	case !ok:
		return d.wait(ctx, b.canceled, b)
	}
	if s.callAlone(d, call, b) {
		return nil
	}
	b.again() // its call was never written: it waits for its turn
	b.bind(&bound)
	if err := d.submit(b); err != nil {
		return err
	}
	return d.wait(ctx, b.canceled, b)
}

// callAlone makes the call that the caller of b has claimed. It reports false if that was never written.
func (s *Store) callAlone(d *dispatcher, call int, b *batch) (written bool) {
	how := nothing
	defer func() { d.finish(call, nil, nil, how) }() // even if the call panics: the dispatcher goes on
	b.alone = b.alone[:0]
	for i := range b.requests {
		if b.requests[i].Err == nil {
			b.alone = append(b.alone, &b.requests[i])
		}
	}
	how = s.call(b.start, b.limit(b.start), b.hard, b.alone)
	if b.traced != nil {
		s.traceCall(b.start, b)
	}
	return !b.unwritten()
}

// call makes a script call that begins now, for which the server has the limit, or MaxWait if it is 0, but never beyond
// hard, if that is not zero. It fills Result or Err of every request: errUnwritten for requests that were never
// written. On a cluster it is one script call for each hash slot.
func (s *Store) call(now time.Time, limit time.Duration, hard time.Time, requests []*script.Request) ended {
	if limit == 0 || limit > s.opt.MaxWait {
		limit = s.opt.MaxWait
	}
	if s.cluster != nil {
		return s.cluster.call(limits{limit, hard}, requests)
	}
	if !s.server.admit(now) {
		fail(requests, s.server.refusal())
		return nothing
	}
	ctx, release := newCallTime(context.Background(), limits{limit, hard})
	defer release()
	keys, arg := script.Encode(requests, s.opt.Clock)
	reply, err := run(ctx, s.opt.Client, &s.script, keys, s.arguments(requests, arg)...)
	how, err := s.server.judge(ctx, err)
	if err != nil {
		fail(requests, err)
		return how
	}
	script.Decode(reply, requests)
	return how
}

// run calls the script on one server. A server that does not know the script (a restart, a failover, SCRIPT FLUSH) has
// not run it, so the script is sent in full at once.
func run(ctx context.Context, c redis.Scripter, s *script.Script, keys []string, args ...any) (string, error) {
	reply, err := c.EvalSha(ctx, s.SHA, keys, args...).Text()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.Eval(ctx, s.Source, keys, args...).Text()
	}
	return reply, err
}

// fail sets the same error for every request.
func fail(requests []*script.Request, err error) {
	se := Classify(err)
	for _, r := range requests {
		r.Err = se
	}
}

// work is one of a dispatcher's goroutines: it makes one script call after the other.
func (s *Store) work(d *dispatcher) {
	var batches []*batch
	var requests []*script.Request
	var waits []Wait
	for {
		var call int
		var now time.Time
		batches, call, now = d.next(batches[:0])
		if len(batches) == 0 {
			return
		}
		requests, waits = requests[:0], waits[:0]
		for _, b := range batches {
			if !b.start.IsZero() && d.timings != nil {
				waits = append(waits, Wait{now.Sub(b.start), len(b.requests)})
			}
			for i := range b.requests {
				if b.requests[i].Err == nil { // a request with an error no longer waits
					requests = append(requests, &b.requests[i])
				}
			}
		}
		limit := longest(batches, now)
		if limit > 0 {
			limit = max(limit, s.servers.fair) // a caller with less time is answered before, by the dispatcher
		}
		how := s.call(now, limit, time.Time{}, requests)
		if s.opt.Trace != nil {
			s.traceCall(now, batches...)
		}
		d.finish(call, batches, waits, how)
		clear(batches)
		clear(requests)
	}
}

// longest is the longest of the limits of some batches, 0 if one of them has none.
func longest(batches []*batch, now time.Time) (limit time.Duration) {
	for _, b := range batches {
		l := b.limit(now)
		if l == 0 {
			return 0
		}
		limit = max(limit, l)
	}
	return limit
}
