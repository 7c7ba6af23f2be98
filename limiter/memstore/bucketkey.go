package memstore

import (
	"strings"

	"sluice/limiter"
)

// inlineKey is the longest key that is stored in its slot. Comparing a longer one
// costs one more memory access.
const inlineKey = 31

// bucketKey is a limiter.Key in a layout in which usual keys are compared without
// following a pointer. Equal keys are equal under ==.
type bucketKey struct {
	long   string // the key if it is longer than inlineKey
	length uint8
	inline [inlineKey]byte
}

// newBucketKey converts k. A long key still shares k's memory.
func newBucketKey(k limiter.Key) (b bucketKey) {
	if len(k) > inlineKey {
		b.long = string(k)
		return b
	}
	b.length = uint8(copy(b.inline[:], k))
	return b
}

// owned returns the key with its own memory.
func (b bucketKey) owned() bucketKey {
	b.long = strings.Clone(b.long)
	return b
}

// size is the key's length in bytes.
func (b *bucketKey) size() int { return max(len(b.long), int(b.length)) }

// appendTo appends the key's bytes to dst.
func (b *bucketKey) appendTo(dst []byte) []byte {
	if b.long != "" {
		return append(dst, b.long...)
	}
	return append(dst, b.inline[:b.length]...)
}
