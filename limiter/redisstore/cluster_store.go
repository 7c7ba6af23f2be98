package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/limiter/redisstore/script"
)

// clusterDispatchers splits a cluster's slots, so that a hanging node delays only the requests of its slots.
const clusterDispatchers = 16

// cluster is what only a cluster needs: where each hash slot is (cluster_topology.go),
// a script call for each slot (cluster_call.go), and requests whose limits live in
// different slots (cluster_across.go).
type cluster struct {
	store *Store
	view  *topology
	undos *across.Undos[undo]

	spanning atomic.Int64

	closing sync.RWMutex // held by requests under way
	closed  bool
}

func newCluster(s *Store, client *redis.ClusterClient) *cluster {
	client.OnNewNode(func(node *redis.Client) { s.servers.add(node) })
	return &cluster{store: s, view: newTopology(client)}
}

// Stats counts since the store was started.
type Stats struct {
	// Spanning counts requests whose limits live in different slots of a cluster.
	Spanning int64
	// GiveBacks counts parts of such requests that were taken and undone because
	// another limit denied or could not decide.
	GiveBacks int64
	// GiveBacksPending counts parts that could not be undone yet and are retried.
	GiveBacksPending int64
	// GiveBacksLost counts parts of denied or undecided requests whose undo was not
	// confirmed, so that units may stay charged. Times the weight it is an upper bound
	// of those units.
	GiveBacksLost int64
	// Reloads counts how often the slot map was reloaded after an error.
	Reloads int64
}

// Stats returns the counters. It may be called at any time.
func (s *Store) Stats() Stats {
	c := s.cluster
	if c == nil {
		return Stats{}
	}
	undone, pending, lost := c.undos.Stats()
	return Stats{Spanning: c.spanning.Load(), GiveBacks: undone, GiveBacksPending: pending,
		GiveBacksLost: lost, Reloads: c.view.reloads.Load()}
}

// spans reports whether the limits of a request live in different slots.
func (c *cluster) spans(req *limiter.Request) bool {
	if len(req.Asks) < 2 {
		return false
	}
	first := c.slot(&req.Asks[0])
	for i := range req.Asks[1:] {
		if c.slot(&req.Asks[i+1]) != first {
			return true
		}
	}
	return false
}

// slot is where a limit lives.
func (c *cluster) slot(a *limiter.Ask) int { return slotOf(c.store.opt.Prefix + string(a.Key)) }

// do decides one request that spans slots.
func (c *cluster) do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	calls := []*limiter.Call{{Request: *req, Result: *res}}
	c.doAll(ctx, calls)
	if calls[0].Err != nil {
		return calls[0].Err
	}
	*res = calls[0].Result
	return nil
}

// divided reports whether an error says that a limit and its ban, which are all of the request, are not both on one
// server, because their slot moves. A ban that has counted nothing has no key, and Redis cannot tell where it is.
func divided(req *limiter.Request, err error) bool {
	var se *limiter.StoreError
	return len(req.Asks) == 2 && req.Asks[1].Limit.Algorithm == limiter.Ban && !script.HasRecord(req) &&
		(req.Op == limiter.OpTake || req.Op == limiter.OpPeek || req.Op == limiter.OpCharge) &&
		errors.As(err, &se) && strings.HasPrefix(se.Err.Error(), "TRYAGAIN")
}

// apart decides a request that is divided, one key at a time. A ban that begins after its look does not deny the
// request.
func (c *cluster) apart(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	var own, ban limiter.Result
	bans := limiter.Request{Op: limiter.OpPeek, Asks: req.Asks[1:]}
	if err := c.store.do(ctx, &bans, &ban); err != nil {
		return err
	}
	op := req.Op
	if op == limiter.OpTake && !ban.Allowed {
		op = limiter.OpPeek
	}
	if err := c.store.do(ctx, &limiter.Request{Op: op, ID: req.ID, Asks: req.Asks[:1]}, &own); err != nil {
		return err
	}
	if op == limiter.OpTake && !own.Allowed && req.Asks[0].Weight > 0 && !req.Asks[1].Look {
		bans.Op = script.OpCount
		_ = c.store.do(ctx, &bans, &ban) // a count that failed is not repeated, and the denial stays one
	}
	res.Allowed, res.Replayed, res.At = own.Allowed && ban.Allowed, false, own.At
	res.Limits = append(res.Limits[:0], own.Limits[0], ban.Limits[0])
	return nil
}

// dispatcherOf is the place of the dispatcher of a hash slot.
func dispatcherOf(slot int) int { return slot * clusterDispatchers / slots }

// slots is the number of hash slots of a cluster.
const slots = 16384

// slotOf is the hash slot of a key: CRC16 (XMODEM) of the text in the first braces,
// or of the whole key, as the Redis Cluster specification defines it.
func slotOf(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
