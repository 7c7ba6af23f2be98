package redisstore

import (
	"context"
	"strings"

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
