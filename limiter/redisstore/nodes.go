package redisstore

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// nodes carries out a batch: it fills res or err of every op.
type nodes interface {
	exec(ctx context.Context, ops []*op)
}

// build makes the arguments of one script call.
func (s *Store) build(ops []*op) (keys []string, blob []byte) {
	elems, nkeys, size := 0, 0, 16
	for _, o := range ops {
		elems, nkeys, size = elems+o.elems, nkeys+len(o.keys), size+len(o.frag)
	}
	keys = make([]string, 0, nkeys)
	blob = appendHeader(make([]byte, 0, size), elems, s.opt.Clock)
	for _, o := range ops {
		keys = append(keys, o.keys...)
		blob = append(blob, o.frag...)
	}
	return keys, blob
}

// fail gives every op the same error.
func fail(ops []*op, err error) {
	se := classify(err)
	for _, o := range ops {
		o.err = se
	}
}

// oneNode is a single server, or a primary that Sentinel watches: all requests
// of a batch go in one script call.
type oneNode struct {
	client redis.UniversalClient
	store  *Store
}

func (n *oneNode) exec(ctx context.Context, ops []*op) {
	keys, blob := n.store.build(ops)
	reply, err := n.store.script.run(ctx, n.client, keys, blob)
	if err != nil {
		fail(ops, err)
		return
	}
	unpack(reply, ops)
}

// manyNodes is a cluster: one script call per hash slot, one pipeline per node.
// It addresses the nodes itself, because the cluster client repeats a command
// whose answer was lost, and a repeated script charges twice.
type manyNodes struct {
	client *redis.ClusterClient
	store  *Store
}

// slotCall is the script call of one slot.
type slotCall struct {
	ops  []*op
	keys []string
	blob []byte
	cmd  *redis.Cmd

	reply string
	err   error
}

func (n *manyNodes) exec(ctx context.Context, ops []*op) {
	var calls []*slotCall
	bySlot := make(map[int]*slotCall, len(ops))
	for _, o := range ops {
		c := bySlot[o.slot]
		if c == nil {
			c = &slotCall{}
			bySlot[o.slot] = c
			calls = append(calls, c)
		}
		c.ops = append(c.ops, o)
	}
	for _, c := range calls {
		c.keys, c.blob = n.store.build(c.ops)
	}
	if moved := n.round(ctx, calls); len(moved) > 0 {
		// A refused call has not run: it may be sent to the right node at once.
		n.client.ReloadState(ctx)
		n.round(ctx, moved)
	}
	for _, c := range calls {
		if c.err != nil {
			fail(c.ops, c.err)
		} else {
			unpack(c.reply, c.ops)
		}
	}
}

// round sends each call to the node of its slot and returns those that found
// the slot elsewhere.
func (n *manyNodes) round(ctx context.Context, calls []*slotCall) (moved []*slotCall) {
	byNode := make(map[*redis.Client][]*slotCall)
	for _, c := range calls {
		node, err := n.client.MasterForKey(ctx, c.keys[0])
		if c.err = err; err == nil {
			byNode[node] = append(byNode[node], c)
		}
	}
	var wg sync.WaitGroup
	for node, cs := range byNode {
		wg.Go(func() { n.pipeline(ctx, node, cs) })
	}
	wg.Wait()
	for _, c := range calls {
		if c.err != nil && redis.HasErrorPrefix(c.err, "MOVED") {
			moved = append(moved, c)
		}
	}
	return moved
}

// pipeline runs the calls of one node, unknown scripts a second time in full.
func (n *manyNodes) pipeline(ctx context.Context, node *redis.Client, calls []*slotCall) {
	sc := &n.store.script
	n.flush(ctx, node, calls, func(p redis.Pipeliner, c *slotCall) { c.cmd = p.EvalSha(ctx, sc.sha, c.keys, c.blob) })
	var unknown []*slotCall
	for _, c := range calls {
		if c.err != nil && strings.HasPrefix(c.err.Error(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		n.flush(ctx, node, unknown, func(p redis.Pipeliner, c *slotCall) { c.cmd = p.Eval(ctx, sc.source, c.keys, c.blob) })
	}
}

func (n *manyNodes) flush(ctx context.Context, node *redis.Client, calls []*slotCall, queue func(redis.Pipeliner, *slotCall)) {
	p := node.Pipeline()
	for _, c := range calls {
		queue(p, c)
	}
	_, err := p.Exec(ctx)
	for _, c := range calls {
		c.reply, c.err = c.cmd.Text()
		if err != nil && c.cmd.Err() == nil && c.err != nil {
			c.err = err // the pipeline failed before it came to this call
		}
	}
}

// slots is the number of hash slots of a cluster.
const slots = 16384

// slotOf is the hash slot of a key: CRC16 (XMODEM) of what stands in the first
// braces, or of the whole key, as the Redis Cluster specification defines it.
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

var (
	_ nodes = (*oneNode)(nil)
	_ nodes = (*manyNodes)(nil)
)
