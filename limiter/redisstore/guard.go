package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// guards holds the breakers of a store, one for each server its client talks
// to, and owns their probes.
type guards struct {
	script  *script.Script
	empty   []byte // a script call without requests
	limit   time.Duration
	changed func(BreakerChange)
	now     func() time.Time

	ctx    context.Context //nolint:containedctx // ends the probes when the store closes
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	nodes  []*guard
}

// guard is the breaker of one server as a hook of its client. Only script calls
// concern it; the client's own commands, such as those that open a connection,
// pass.
type guard struct {
	*breaker
	client *redis.Client
	all    *guards
}

// wallTime is the one place where this package reads the wall clock.
func wallTime() time.Time {
	return time.Now() //nolint:forbidigo // measures durations and outages, never a bucket's time
}

func newGuards(s *Store) *guards {
	_, empty := script.Encode(nil, nil)
	gs := &guards{
		script: &s.script, empty: empty, limit: s.opt.ProbeLimit, changed: s.opt.OnBreaker, now: wallTime,
	}
	gs.ctx, gs.cancel = context.WithCancel(context.Background())
	return gs
}

// attach puts a breaker in front of every server of the client.
func (gs *guards) attach(client redis.UniversalClient) {
	switch c := client.(type) {
	case *redis.Client:
		gs.guard(c)
	case *redis.ClusterClient:
		c.OnNewNode(gs.guard)
	}
}

// guard adds a server. A new client for a known address takes over its place.
func (gs *guards) guard(c *redis.Client) {
	g := &guard{client: c, all: gs, breaker: &breaker{node: c.Options().Addr, changed: gs.changed}}
	g.watch = func(b *breaker) {
		gs.spawn(func() {
			if !b.watchUntil(gs.ctx, gs.now, g.probe) {
				gs.drop(g)
			}
		})
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.closed {
		return
	}
	gs.nodes = slices.DeleteFunc(gs.nodes, func(old *guard) bool { return old.node == g.node })
	gs.nodes = append(gs.nodes, g)
	c.AddHook(g)
}

// drop forgets a server that has left the cluster.
func (gs *guards) drop(g *guard) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.nodes = slices.DeleteFunc(gs.nodes, func(old *guard) bool { return old == g })
}

// spawn runs f in a goroutine that close waits for.
func (gs *guards) spawn(f func()) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if !gs.closed {
		gs.wg.Go(f)
	}
}

// close ends the probes; from now on the hooks let everything pass.
func (gs *guards) close() {
	gs.mu.Lock()
	gs.closed = true
	gs.mu.Unlock()
	gs.cancel()
	gs.wg.Wait()
}

// snapshot shows the servers that the client still talks to. The client closes
// what it has for a server that left the cluster a minute after it noticed.
func (gs *guards) snapshot() []Breaker {
	gs.mu.Lock()
	if !gs.closed {
		gs.nodes = slices.DeleteFunc(gs.nodes, func(g *guard) bool { return g.left() })
	}
	nodes := slices.Clone(gs.nodes)
	gs.mu.Unlock()
	out := make([]Breaker, len(nodes))
	for i, g := range nodes {
		out[i] = g.snapshot(gs.now())
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
func (s *Store) Breakers() []Breaker { return s.guards.snapshot() }

type probing struct{}

// probe runs the script without requests: what fails for want of a right, of
// memory, of a writable primary, fails here too, and nothing is written. The
// connection may take probeWait: what a frozen server is sent it answers the moment
// it goes on, while what was swallowed on the way must be given up and sent anew.
// The script may take only as long as a check.
func (g *guard) probe(ctx context.Context) error {
	ctx = context.WithValue(ctx, probing{}, true)
	dial, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := g.client.Ping(dial).Err(); err != nil && !isReply(err) {
		return err
	}
	call, cancel := context.WithTimeout(ctx, g.all.limit)
	defer cancel()
	_, err := run(call, g.client, g.all.script, nil, g.all.empty)
	return err
}

// gone reports that a client was closed for good: its server left the cluster.
func gone(err error) bool { return errors.Is(err, redis.ErrClosed) }

// left reports whether the client of this server was closed for good. It sends
// nothing: a closed client says so before it looks at the context.
func (g *guard) left() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return gone(g.client.Ping(ctx).Err())
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// passes reports whether the hook has nothing to do with a call.
func (g *guard) passes(ctx context.Context, cmds ...redis.Cmder) bool {
	if g.all.ctx.Err() != nil || ctx.Value(probing{}) != nil {
		return true
	}
	for _, cmd := range cmds {
		if n := cmd.Name(); n == "evalsha" || n == "eval" {
			return false
		}
	}
	return true
}

// ProcessHook guards a single command.
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.passes(ctx, cmd) {
			return next(ctx, cmd)
		}
		start := g.all.now()
		if !g.admit(start) {
			err := g.why()
			cmd.SetErr(err)
			return err
		}
		err := next(ctx, cmd)
		g.judge(start, err)
		return err
	}
}

// ProcessPipelineHook guards a pipeline as one call; its first error speaks for
// it.
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if g.passes(ctx, cmds...) {
			return next(ctx, cmds)
		}
		start := g.all.now()
		if !g.admit(start) {
			err := g.why()
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		err := next(ctx, cmds)
		g.judge(start, err)
		return err
	}
}

// judge reports how a call went.
func (g *guard) judge(start time.Time, err error) {
	if err == nil {
		g.report(start, healthy, "", nil) // one clock reading is enough here
		return
	}
	now := g.all.now()
	se := Classify(err)
	g.report(now, verdictOf(se, isReply(err), now.Sub(start)), se.Cause, se.Err)
}

// verdictOf says what a failed call tells about the server.
func verdictOf(se *limiter.StoreError, reply bool, took time.Duration) verdict {
	switch se.Cause {
	case limiter.CauseConnection, limiter.CauseReadOnly, limiter.CauseLoading, limiter.CauseMemory, limiter.CauseAuth:
		return failing
	case limiter.CauseTimeout:
		if took >= fairWait {
			return failing
		}
		return neither
	case limiter.CauseBusy:
		if reply {
			return failing
		}
		return neither // our own pool is busy
	case limiter.CauseCanceled, limiter.CauseClosed, limiter.CauseCluster, limiter.CauseBreaker:
		return neither
	}
	return healthy // it answered; what is wrong is in one request or in the script
}

// DialHook hands out a connection that fails at its first use instead of a
// failed attempt. The client counts failed attempts and, after as many as its
// pool has room for, stops dialling but once a second; when to try again is the
// breaker's decision.
func (g *guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil && g.all.ctx.Err() == nil {
			return &undialled{&notDialled{err}}, nil
		}
		return c, err
	}
}
