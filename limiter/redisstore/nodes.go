package redisstore

import (
	"bytes"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// nodes carries out a batch: it fills res or err of every op.
type nodes interface {
	exec(ctx context.Context, ops []*op)
}

// shapes remembers where the latest plain takes of a call stand that differ in
// limits or weights.
type shapes struct {
	at   [8]int // their positions in the array, 0 for none
	frag [8][]byte
	next int
}

// find returns the position of a plain take with the same asks, or remembers that
// this one stands at pos and returns 0.
func (s *shapes) find(frag []byte, pos int) int {
	for i := range s.at {
		if s.at[i] > 0 && bytes.Equal(s.frag[i], frag) {
			return s.at[i]
		}
	}
	s.at[s.next], s.frag[s.next] = pos, frag
	s.next = (s.next + 1) % len(s.at)
	return 0
}

// build makes the arguments of one script call.
func (s *Store) build(ops []*op) (keys []string, blob []byte) {
	nkeys, size := 0, 16
	for _, o := range ops {
		nkeys, size = nkeys+len(o.keys), size+len(o.frag)
	}
	keys = make([]string, 0, nkeys)
	blob = appendHeader(make([]byte, 0, size), s.opt.Clock)
	elems := headElems
	var seen shapes
	for _, o := range ops {
		keys = append(keys, o.keys...)
		if o.plain {
			// Positions count from 1.
			if at := seen.find(o.frag, elems+1); at > 0 {
				blob = appendInt(blob, int64(-at))
				elems++
				continue
			}
		}
		blob = append(blob, o.frag...)
		elems += o.elems
	}
	setLength(blob, elems)
	return keys, blob
}

// fail gives every op the same error.
func fail(ops []*op, err error) {
	se := Classify(err)
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
