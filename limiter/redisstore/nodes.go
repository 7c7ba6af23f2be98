package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore/script"
)

// nodes carries out a batch: it fills Result or Err of every request.
type nodes interface {
	exec(ctx context.Context, ops []*script.Request)
}

// fail gives every request the same error.
func fail(ops []*script.Request, err error) {
	se := Classify(err)
	for _, o := range ops {
		o.Err = se
	}
}

// oneNode is a single server, or a primary that Sentinel watches: all requests
// of a batch go in one script call.
type oneNode struct {
	client redis.UniversalClient
	store  *Store
}

func (n *oneNode) exec(ctx context.Context, ops []*script.Request) {
	keys, arg := script.Encode(ops, n.store.opt.Clock)
	reply, err := run(ctx, n.client, &n.store.script, keys, arg)
	if err != nil {
		fail(ops, err)
		return
	}
	script.Decode(reply, ops)
}

// run calls the script on one node. A server that does not know it (a restart,
// a failover, SCRIPT FLUSH) has not run it either, so it is sent in full at once.
func run(ctx context.Context, c redis.Scripter, s *script.Script, keys []string, arg []byte) (string, error) {
	reply, err := c.EvalSha(ctx, s.SHA, keys, arg).Text()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.Eval(ctx, s.Source, keys, arg).Text()
	}
	return reply, err
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
