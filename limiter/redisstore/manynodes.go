package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// hops is how often a script call is sent at most: to the owner, to where that
// one points (MOVED, ASK), to where that one points, and once more when a slot
// came to rest meanwhile. Only calls that certainly have not run are sent again.
const hops = 4

// manyNodes is a cluster: one script call per hash slot, one pipeline per node.
// It addresses the nodes itself, because the cluster client repeats a command
// whose answer was lost, and a repeated script charges twice.
type manyNodes struct {
	view  *topology
	store *Store
}

// slotCall is the script call of one slot.
type slotCall struct {
	ops  []*script.Request
	keys []string
	blob []byte
	cmd  *redis.Cmd

	node   *redis.Client // where to send it; nil for the owner that the view knows
	asking bool          // the slot is on its way to node

	reply string
	err   error
}

func (s *Store) slotCall(ops []*script.Request) *slotCall {
	c := &slotCall{ops: ops}
	c.keys, c.blob = script.Encode(ops, s.opt.Clock)
	return c
}

func (n *manyNodes) exec(ctx context.Context, ops []*script.Request) {
	calls := n.bySlot(ops)
	for hop := 1; len(calls) > 0; hop++ {
		n.round(ctx, calls)
		var again []*slotCall
		for _, c := range calls {
			switch {
			case c.err == nil:
				script.Decode(c.reply, c.ops)
			case hop < hops && ctx.Err() == nil && n.redirect(ctx, c):
				again = append(again, n.divide(c)...)
			default:
				n.view.doubt(ctx, c.err)
				fail(c.ops, c.err)
			}
		}
		calls = again
	}
}

// bySlot makes a script call of the ops of each slot, in order of arrival.
func (n *manyNodes) bySlot(ops []*script.Request) []*slotCall {
	var order []int
	of := make(map[int][]*script.Request, len(ops))
	for _, o := range ops {
		if of[o.Slot] == nil {
			order = append(order, o.Slot)
		}
		of[o.Slot] = append(of[o.Slot], o)
	}
	calls := make([]*slotCall, 0, len(order))
	for _, slot := range order {
		calls = append(calls, n.store.slotCall(of[slot]))
	}
	return calls
}

// redirect says whether a refused call may go elsewhere, and where.
func (n *manyNodes) redirect(ctx context.Context, c *slotCall) bool {
	c.asking = false
	switch {
	case redis.HasErrorPrefix(c.err, "MOVED"):
		n.view.reload(ctx)
		c.node = n.view.at(addressIn(c.err), c.node)
	case redis.HasErrorPrefix(c.err, "ASK"):
		c.node, c.asking = n.view.at(addressIn(c.err), c.node), true
	case redis.HasErrorPrefix(c.err, "TRYAGAIN"):
		// Some of its keys have moved already. Divided, each request may find
		// all of its own in one place.
		if len(c.ops) == 1 {
			return false
		}
		c.node = nil
	case errors.Is(c.err, redis.ErrClosed):
		// The client has dropped this node from its view.
		n.view.forget(c.node)
		c.node = nil
	default:
		return false
	}
	return true
}

// divide makes a call for each request of one that met a slot on its way.
func (n *manyNodes) divide(c *slotCall) []*slotCall {
	if len(c.ops) == 1 || !redis.HasErrorPrefix(c.err, "TRYAGAIN") {
		return []*slotCall{c}
	}
	out := make([]*slotCall, len(c.ops))
	for i := range c.ops {
		out[i] = n.store.slotCall(c.ops[i : i+1])
	}
	return out
}

// addressIn is the last word of a redirection.
func addressIn(err error) string {
	msg := err.Error()
	return msg[strings.LastIndexByte(msg, ' ')+1:]
}

// round sends each call to its node, all nodes at once.
func (n *manyNodes) round(ctx context.Context, calls []*slotCall) {
	byNode := make(map[*redis.Client][]*slotCall)
	for _, c := range calls {
		if c.err = nil; c.node == nil {
			c.node, c.err = n.view.client.MasterForKey(ctx, c.keys[0])
		}
		if c.err == nil {
			byNode[c.node] = append(byNode[c.node], c)
		}
	}
	if len(byNode) == 1 {
		for node, cs := range byNode {
			n.pipeline(ctx, node, cs)
		}
		return
	}
	var wg sync.WaitGroup
	for node, cs := range byNode {
		wg.Go(func() { n.pipeline(ctx, node, cs) })
	}
	wg.Wait()
}

// pipeline runs the calls of one node, unknown scripts a second time in full.
func (n *manyNodes) pipeline(ctx context.Context, node *redis.Client, calls []*slotCall) {
	sc := &n.store.script
	flush(ctx, node, calls, func(p redis.Pipeliner, c *slotCall) *redis.Cmd { return p.EvalSha(ctx, sc.SHA, c.keys, c.blob) })
	var unknown []*slotCall
	for _, c := range calls {
		if c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		flush(ctx, node, unknown, func(p redis.Pipeliner, c *slotCall) *redis.Cmd { return p.Eval(ctx, sc.Source, c.keys, c.blob) })
	}
}

// flush sends calls on one connection, each that needs it behind an ASKING.
func flush(ctx context.Context, node *redis.Client, calls []*slotCall, queue func(redis.Pipeliner, *slotCall) *redis.Cmd) {
	p := node.Pipeline()
	for _, c := range calls {
		if c.asking {
			p.Do(ctx, "ASKING")
		}
		c.cmd = queue(p, c)
	}
	_, err := p.Exec(ctx)
	for _, c := range calls {
		c.reply, c.err = c.cmd.Text()
		if err != nil && c.cmd.Err() == nil && c.err != nil {
			c.err = err // the pipeline failed before it came to this call
		}
	}
}

// outdates reports whether an error may mean that the cluster has changed.
func outdates(err error) bool {
	switch Classify(err).Cause {
	case limiter.CauseConnection, limiter.CauseTimeout, limiter.CauseCluster, limiter.CauseReadOnly,
		limiter.CauseLoading, limiter.CauseBreaker, limiter.CauseClosed:
		return true
	}
	return false
}
