// Package heap bounds how far the process's memory grows during work that needs
// much of it for a short time, such as an import of 100,000 rules: left alone the
// garbage collector lets the heap double first.
//
// A worked example: a node has 250 MiB from the system and begins an import with
// Bound(700<<20). Until the import ends, the collector works as hard as it must
// to stay below 950 MiB.
package heap

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Import is by how many bytes the import of a large file may grow the process: with
// what a node holds besides, that stays below 1 GiB.
const Import = 640 << 20

var (
	mu sync.Mutex
	// users is how many calls of Bound are not undone yet, before the limit that
	// was in force when the first came.
	users  int
	before int64
)

// Bound keeps the process's memory from growing by more than so many bytes, as far
// as collecting garbage can, until undo is called, which is to be done once. A
// GOMEMLIMIT that is lower stays in force. While one bound is in force, others
// change nothing. It is safe for concurrent use.
func Bound(bytes int64) (undo func()) {
	mu.Lock()
	defer mu.Unlock()
	if users++; users == 1 {
		before = debug.SetMemoryLimit(-1)
		debug.FreeOSMemory() // what is garbage now does not count
		if limit := held() + bytes; limit < before {
			debug.SetMemoryLimit(limit)
		}
	}
	return sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		if users--; users == 0 {
			debug.SetMemoryLimit(before)
		}
	})
}

// held is the memory that the runtime has from the system, in bytes, counted as a
// memory limit counts it.
func held() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	n := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	return int64(min(n, math.MaxInt64/2))
}
