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
	// PlainKeys keeps every name in Redis readable. Otherwise short keys have a
	// packed name, which saves 16 bytes a bucket; KeyOf reads it. Names of a
	// cluster are always readable. Nodes that share buckets must agree;
	// UsePlainKeys changes it later.
	PlainKeys bool
	// Clock replaces the server's clock, ms since the epoch; for tests. nil
	// means Redis TIME, read once in each script call.
	Clock func() int64
	// MaxBatch is the most requests one script call carries, 100 if 0.
	MaxBatch int
	// MaxQueue is the most requests that wait for a script call on one lane (see
	// Store), 4096 if 0. More are refused with limiter.CauseBusy.
	MaxQueue int
	// MaxWait bounds one round trip, whatever deadlines its requests have; 1 s
	// if 0.
	MaxWait time.Duration
	// OnBreaker, if not nil, hears when a breaker changes its state. It is called
	// by whoever caused the change and must not block.
	OnBreaker func(BreakerChange)
	// ProbeLimit is how quick a server must answer a probe to be let back in:
	// the time that a check may take. 25 ms if 0.
	ProbeLimit time.Duration
}

const (
	// inFlight is how many script calls of a lane are under way at once. One
	// would leave Redis idle while an answer travels and is read; with two, one
	// runs while the other travels. The third is for the moments of a calm lane
	// when three requests come close together: none waits for a whole round trip
	// first. More only make batches smaller, and the script runs on one thread in
	// any case.
	inFlight = 3
	// clusterLanes splits a cluster's slots, so that a node that hangs holds up
	// only the lanes of its own slots.
	clusterLanes = 16
	// maxKeys bounds the keys of one script call.
	maxKeys = 512
)

// Store keeps buckets in Redis. It is safe for concurrent use.
//
// Requests go through lanes: one on a single node, sixteen ranges of hash slots
// on a cluster. A lane has three script calls under way at most, and a bounded
// queue of what arrives meanwhile; when one returns, what has queued goes out
// together in the next.
type Store struct {
	opt    Options
	naming naming
	names  script.Names // of naming
	script script.Script
	lanes  []*lane
	nodes  nodes
	guards *guards
	groups sync.Pool // *group of one request; see spare
	// batches has *group of up to MaxBatch requests; see place.
	batches sync.Pool
	across  across
	gives   giveBacks // of a cluster
	view    *topology // of a cluster, else nil
	wg      sync.WaitGroup
}

var _ limiter.Store = (*Store)(nil)

// New starts a store. It does not connect: a server that is away shows in the
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
	s.guards = newGuards(s)
	s.guards.attach(opt.Client)
	lanes := 1
	s.nodes = &oneNode{client: opt.Client, store: s}
	_, clustered := opt.Client.(*redis.ClusterClient)
	s.naming = newNaming(opt.Prefix, opt.PlainKeys || clustered)
	s.names = script.Names{Prefix: opt.Prefix, Bucket: s.naming.bucket}
	if c, ok := opt.Client.(*redis.ClusterClient); ok {
		lanes = clusterLanes
		s.view = newTopology(c)
		s.nodes = &manyNodes{view: s.view, store: s}
	}
	for range lanes {
		l := newLane(opt.MaxBatch, opt.MaxQueue)
		s.lanes = append(s.lanes, l)
		for range inFlight {
			s.wg.Go(func() { s.work(l) })
		}
	}
	if s.view != nil {
		s.gives.wake, s.gives.stop, s.gives.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
		go s.repeat()
	}
	return s, nil
}

// Close refuses further requests with limiter.CauseClosed, answers those that
// have been accepted and waits for its goroutines. It may be called twice.
func (s *Store) Close() error {
	s.across.close()
	s.closeGiveBacks()
	for _, l := range s.lanes {
		l.close()
	}
	s.wg.Wait()
	for _, l := range s.lanes {
		l.drain()
	}
	s.guards.close()
	if s.view != nil {
		s.view.close()
	}
	return nil
}

func (s *Store) clustered() bool { return len(s.lanes) > 1 }

// laneOf is the lane of a hash slot.
func (s *Store) laneOf(slot int) *lane { return s.lanes[s.laneIndex(slot)] }

func (s *Store) laneIndex(slot int) int { return slot * len(s.lanes) / slots }

// Do decides one request within the deadline of ctx.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if s.clustered() && len(req.Asks) > 1 {
		if err := req.Check(); err != nil {
			return err
		}
		if s.spans(req) {
			return s.doAcross(ctx, req, res)
		}
	}
	g := s.spare()
	o := g.add()
	if err := s.prepare(o, req); err != nil {
		s.groups.Put(g)
		return err
	}
	if err := s.send(ctx, g, s.laneOf(o.Slot)); err != nil {
		return err // g may still be in use
	}
	err := o.Err
	if err == nil {
		copyResult(res, &o.Result)
	}
	s.groups.Put(g)
	return err
}

// spare returns an empty group for one request.
func (s *Store) spare() *group {
	g, ok := s.groups.Get().(*group)
	if !ok {
		return newGroup(1)
	}
	g.reset()
	return g
}

// prepare checks and packs a request.
func (s *Store) prepare(o *script.Request, req *limiter.Request) error {
	if err := req.Check(); err != nil {
		return err
	}
	o.Encode(&s.names, req)
	o.Slot = 0
	if !s.clustered() {
		return nil
	}
	o.Slot = slotOf(o.Keys[0])
	return nil
}

// longestLead is the longest that a caller carries its own script call: in that
// time it does not notice if it is canceled.
const longestLead = 100 * time.Millisecond

// send gets the answers of g, a group of one request. After an error g belongs
// to whoever still works on it.
func (s *Store) send(ctx context.Context, g *group, l *lane) error {
	b, ok := ctx.(limiter.Bounded)
	if !ok {
		if ctx.Err() != nil {
			return given(ctx, false)
		}
		g.deadline, g.bounded = ctx.Deadline()
		if err := l.submit(g); err != nil {
			return err
		}
		return l.wait(ctx, ctx.Done(), g)
	}
	bound := b.Bound()
	select {
	case <-bound.Canceled:
		return given(ctx, false)
	default:
	}
	g.deadline, g.bounded = bound.Deadline, true
	g.watched, g.within = true, bound.Deadline.Sub(bound.Start)
	if g.within > longestLead {
		if err := l.submit(g); err != nil {
			return err
		}
		return l.wait(ctx, bound.Canceled, g)
	}
	slot, lead, err := l.claim(g)
	switch {
	case err != nil:
		return err
	case !lead:
		return l.wait(ctx, bound.Canceled, g)
	}
	s.lead(l, g, slot)
	return nil
}

// lead carries the caller's own request in a script call of its own.
func (s *Store) lead(l *lane, g *group, slot int) {
	g.alone[0] = &g.ops[0]
	defer l.finish(slot, nil) // even if it panics: the lane goes on
	s.carry(g.deadline, g.alone[:])
}

func copyResult(dst, src *limiter.Result) {
	dst.Allowed, dst.Replayed, dst.At = src.Allowed, src.Replayed, src.At
	dst.Limits = append(dst.Limits[:0], src.Limits...)
}

// work is one of a lane's goroutines: it carries batch after batch.
func (s *Store) work(l *lane) {
	var batch []*group
	var ops []*script.Request
	for {
		var slot int
		batch, slot = l.take(batch[:0])
		if len(batch) == 0 {
			return
		}
		ops = ops[:0]
		for _, g := range batch {
			for i := range g.ops {
				ops = append(ops, &g.ops[i])
			}
		}
		s.carry(latest(batch), ops)
		l.finish(slot, batch)
		clear(batch)
		clear(ops)
	}
}

// latest is the last of the deadlines of a batch, zero if one of its groups has
// none.
func latest(batch []*group) (t time.Time) {
	for _, g := range batch {
		if !g.bounded {
			return time.Time{}
		}
		if g.deadline.After(t) {
			t = g.deadline
		}
	}
	return t
}

// carry runs one script call until the given time, if there is one, or MaxWait.
func (s *Store) carry(until time.Time, ops []*script.Request) {
	if most := wallTime().Add(s.opt.MaxWait); until.IsZero() || most.Before(until) {
		until = most
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	s.nodes.exec(ctx, ops)
}
