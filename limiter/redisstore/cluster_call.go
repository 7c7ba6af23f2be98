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

// hops is the largest number of times that a script call is sent: to the primary of its slot, to the server that this
// one names (MOVED, ASK), to the server that the second names, and once more if the migration of the slot has just
// ended. Only calls that certainly have not run are sent again.
const hops = 4

// slotCall is the script call of one hash slot.
type slotCall struct {
	requests []*script.Request
	keys     []string
	args     []any
	cmd      *redis.Cmd

	node   *redis.Client // where to send it; nil: to the primary of the slot in view
	asking bool          // the slot is being migrated to node

	reply string
	err   error
	how   ended
}

func (c *cluster) slotCall(requests []*script.Request) *slotCall {
	sc := &slotCall{requests: requests}
	keys, arg := script.Encode(requests, c.store.opt.Clock)
	sc.keys, sc.args = keys, c.store.arguments(requests, arg)
	return sc
}

// call makes one script call for each hash slot and sends one pipeline to each node. It
// addresses the nodes itself, because the cluster client repeats a command whose answer
// was lost, and a repeated script charges twice. A call failed if it did at one node.
func (c *cluster) call(l limits, requests []*script.Request) (how ended) {
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	defer cancel()
	calls := c.bySlot(requests)
	how = nothing
	for hop := 1; len(calls) > 0; hop++ {
		c.send(ctx, l, calls)
		var again []*slotCall
		for _, sc := range calls {
			if sc.how == failed || sc.how == silent && how != failed || how == nothing {
				how = sc.how
			}
			switch {
			case sc.err == nil:
				script.Decode(sc.reply, sc.requests)
			case hop < hops && ctx.Err() == nil && c.redirect(ctx, sc):
				again = append(again, c.divide(sc)...)
			default:
				c.view.doubt(ctx, sc.err)
				fail(sc.requests, sc.err)
			}
		}
		calls = again
	}
	return how
}

// bySlot makes a script call of the requests of each slot, in order of arrival.
func (c *cluster) bySlot(requests []*script.Request) []*slotCall {
	var order []int
	of := make(map[int][]*script.Request, len(requests))
	for _, r := range requests {
		if of[r.Slot] == nil {
			order = append(order, r.Slot)
		}
		of[r.Slot] = append(of[r.Slot], r)
	}
	calls := make([]*slotCall, 0, len(order))
	for _, slot := range order {
		calls = append(calls, c.slotCall(of[slot]))
	}
	return calls
}

// redirect reports whether a refused call may be sent to another server, and sets
// sc.node to it.
func (c *cluster) redirect(ctx context.Context, sc *slotCall) bool {
	sc.asking = false
	switch {
	case redis.HasErrorPrefix(sc.err, "MOVED"):
		c.view.reload(ctx)
		sc.node = c.view.at(addressIn(sc.err), sc.node)
	case redis.HasErrorPrefix(sc.err, "ASK"):
		sc.node, sc.asking = c.view.at(addressIn(sc.err), sc.node), true
	case redis.HasErrorPrefix(sc.err, "TRYAGAIN"):
		// Some of its keys have been migrated already. Each request alone may have
		// all of its keys on one server.
		if len(sc.requests) == 1 {
			return false
		}
		sc.node = nil
	case errors.Is(sc.err, redis.ErrClosed):
		// The client has dropped this node from its view.
		c.view.forget(sc.node)
		sc.node = nil
	default:
		return false
	}
	return true
}

// divide returns one call for each request of a call that was refused because its slot
// is being migrated; any other call stays as it is.
func (c *cluster) divide(sc *slotCall) []*slotCall {
	if len(sc.requests) == 1 || !redis.HasErrorPrefix(sc.err, "TRYAGAIN") {
		return []*slotCall{sc}
	}
	out := make([]*slotCall, len(sc.requests))
	for i := range sc.requests {
		out[i] = c.slotCall(sc.requests[i : i+1])
	}
	return out
}

// addressIn is the last word of a redirection.
func addressIn(err error) string {
	msg := err.Error()
	return msg[strings.LastIndexByte(msg, ' ')+1:]
}

// send sends each call to its node, all nodes at once.
func (c *cluster) send(ctx context.Context, l limits, calls []*slotCall) {
	byNode := make(map[*redis.Client][]*slotCall)
	for _, sc := range calls {
		sc.how = nothing
		if sc.err = nil; sc.node == nil {
			sc.node, sc.err = c.view.client.MasterForKey(ctx, sc.keys[0])
		}
		if sc.err == nil {
			byNode[sc.node] = append(byNode[sc.node], sc)
		}
	}
	if len(byNode) == 1 {
		for node, scs := range byNode {
			c.sendTo(l, node, scs)
		}
		return
	}
	var wg sync.WaitGroup
	for node, scs := range byNode {
		wg.Go(func() { c.sendTo(l, node, scs) })
	}
	wg.Wait()
}

// sendTo makes the calls of one node, those whose script it does not know a second time
// in full.
func (c *cluster) sendTo(l limits, node *redis.Client, calls []*slotCall) {
	s := &c.store.script
	c.pipeline(l, node, calls, func(ctx context.Context, p redis.Pipeliner, sc *slotCall) *redis.Cmd {
		return p.EvalSha(ctx, s.SHA, sc.keys, sc.args...)
	})
	var unknown []*slotCall
	for _, sc := range calls {
		if sc.err != nil && redis.HasErrorPrefix(sc.err, "NOSCRIPT") {
			unknown = append(unknown, sc)
		}
	}
	if len(unknown) > 0 {
		c.pipeline(l, node, unknown, func(ctx context.Context, p redis.Pipeliner, sc *slotCall) *redis.Cmd {
			return p.Eval(ctx, s.Source, sc.keys, sc.args...)
		})
	}
}

// pipeline sends calls on one connection, each that needs it behind an ASKING. The
// breaker of the node takes them as one call, whose first error speaks for it.
func (c *cluster) pipeline(l limits, node *redis.Client, calls []*slotCall,
	queue func(context.Context, redis.Pipeliner, *slotCall) *redis.Cmd) {
	sv := c.store.servers.of(node)
	if sv != nil && !sv.admit(wallTime()) {
		err := sv.refusal()
		for _, sc := range calls {
			sc.err = err
		}
		return
	}
	ctx, release := newCallTime(context.Background(), l)
	defer release()
	p := node.Pipeline()
	for _, sc := range calls {
		if sc.asking {
			p.Do(ctx, "ASKING")
		}
		sc.cmd = queue(ctx, p, sc)
	}
	_, err := p.Exec(ctx)
	how, judged := nothing, err
	if sv != nil {
		how, judged = sv.judge(ctx, err)
	}
	unwritten := judged == errUnwritten //nolint:errorlint // the very error
	for _, sc := range calls {
		sc.how = how
		sc.reply, sc.err = sc.cmd.Text()
		switch {
		case unwritten:
			sc.err = errUnwritten
		case err != nil && sc.cmd.Err() == nil && sc.err != nil:
			sc.err = err // the pipeline failed before it came to this call
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
