package fleet

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// PresenceOptions configure a Presence. Client and Now are required.
type PresenceOptions struct {
	// Client talks to the servers; it may be the client of the counter store.
	Client redis.UniversalClient
	// Prefix is the prefix of the counter store: nodes that share buckets count each other. "sl:" if empty.
	Prefix string
	// Every is the time between two announcements, 1 s if 0.
	Every time.Duration
	// Lifetime is how long a node counts as live after its last announcement, five
	// times Every if 0.
	Lifetime time.Duration
	// Known is the last known number of nodes. It is used until Redis answers. 1 if
	// 0.
	Known int
	// Now is the wall clock.
	Now func() time.Time
	// Counted, if not nil, is called with each new number from Redis, by the
	// goroutine of the Presence.
	Counted func(n int)
}

// Presence announces this node in Redis and counts the nodes that do so. While
// Redis is unreachable the last count stays. After an outage the count does not
// fall until the other nodes had time to announce themselves again. It is safe for
// concurrent use, owns one goroutine and never delays a check.
type Presence struct {
	opt  PresenceOptions
	id   string
	key  string
	live atomic.Int64
	left atomic.Int64
	ok   atomic.Bool

	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// announceScript adds a node to the sorted set of nodes by the server's clock, removes expired ones, and returns the
// remaining ones. KEYS[1] the set; ARGV[1] the node, ARGV[2] its lifetime in ms, 0 to leave.
const announceScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return redis.call('ZRANGE', KEYS[1], 0, -1)`

// NewPresence starts to announce this node. Close it to leave immediately instead of
// after the lifetime.
func NewPresence(opt PresenceOptions) (*Presence, error) {
	if opt.Client == nil || opt.Now == nil {
		return nil, errors.New("presence: Client and Now are required")
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	if opt.Every <= 0 {
		opt.Every = time.Second
	}
	if opt.Lifetime <= 0 {
		opt.Lifetime = 5 * opt.Every
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the process instead
	p := &Presence{
		opt: opt, id: base64.RawURLEncoding.EncodeToString(id[:]),
		key: opt.Prefix + "nodes", done: make(chan struct{}), // no bucket's key is without braces
	}
	p.live.Store(int64(max(1, opt.Known)))
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
	return p, nil
}

// Live is the number of nodes including this one, at least 1. Before the first
// answer of Redis it is the last known number.
func (p *Presence) Live() int { return int(p.live.Load()) }

// Left is the number of nodes that have disappeared since this one started, whether or not others have come. A node
// that could not announce itself for its lifetime counts as disappeared.
func (p *Presence) Left() int64 { return p.left.Load() }

// Connected reports whether the last announcement succeeded.
func (p *Presence) Connected() bool { return p.ok.Load() }

// Close stops announcing, and removes this node from the list if Redis was reachable
// last. It may be called twice.
func (p *Presence) Close() error {
	p.once.Do(func() {
		p.cancel()
		<-p.done
		if p.ok.Load() {
			_, _ = p.announce(context.Background(), 0) // on an error, the entry expires
		}
	})
	return nil
}

func (p *Presence) run(ctx context.Context) {
	defer close(p.done)
	tick := time.NewTicker(p.opt.Every)
	defer tick.Stop()
	hold := p.hold()
	reported := p.opt.Known
	var known []string
	for {
		nodes, err := p.announce(ctx, p.opt.Lifetime)
		if ctx.Err() != nil {
			return
		}
		p.ok.Store(err == nil)
		if err == nil {
			gone := slices.DeleteFunc(known, func(id string) bool { return slices.Contains(nodes, id) })
			p.left.Add(int64(len(gone)))
			known = nodes
		}
		live := hold(len(nodes), err, p.opt.Now())
		p.live.Store(int64(live))
		if err == nil && live != reported && p.opt.Counted != nil {
			reported = live
			p.opt.Counted(live)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hold returns the function from the answer to an announcement to the count. The
// count does not fall after a failure until every node had its lifetime to
// announce itself again.
func (p *Presence) hold() func(n int, err error, now time.Time) int {
	known, until := max(1, p.opt.Known), time.Time{}
	return func(n int, err error, now time.Time) int {
		switch {
		case err != nil:
			until = now.Add(p.opt.Lifetime)
		case n > known || !now.Before(until):
			known = max(n, 1)
		}
		return known
	}
}

func (p *Presence) announce(ctx context.Context, lifetime time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(p.opt.Every, time.Second))
	defer cancel()
	return p.opt.Client.Eval(ctx, announceScript, []string{p.key}, p.id, lifetime.Milliseconds()).StringSlice()
}
