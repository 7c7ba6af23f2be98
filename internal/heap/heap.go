// Package heap limits how much the memory of the process grows during short work that
// needs much of it, such as an import of 100,000 rules. By default the garbage collector
// lets the heap double first.
//
// An example: a node uses 250 MiB and begins an import with Bound(700<<20). Until the
// import ends, the collector runs as often as necessary to stay below 950 MiB. After it,
// the node uses what its rules need.
package heap

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Import is how many bytes the process may grow during the import of a large file. The
// total memory of a node then stays below 1 GiB.
const Import = 640 << 20

var (
	mu sync.Mutex
	// users is the number of calls of Bound that are not undone yet, and before the limit
	// that was in force before the first of them.
	users  int
	before int64
)

// Bound limits the growth of the process to that many bytes, as far as garbage collection
// can, until undo is called, which must be called once. A lower GOMEMLIMIT stays in force.
// While a bound is in force, further calls have no effect. It is safe for concurrent use.
//
// The last undo is a Release.
func Bound(bytes int64) (undo func()) {
	mu.Lock()
	defer mu.Unlock()
	if users++; users == 1 {
		before = debug.SetMemoryLimit(-1)
		debug.FreeOSMemory() // garbage does not count
		if limit := held() + bytes; limit < before {
			debug.SetMemoryLimit(limit)
		}
	}
	return sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		if users--; users == 0 {
			debug.SetMemoryLimit(before)
			debug.FreeOSMemory()
		}
	})
}

// Release returns garbage to the system after work that needed much memory, unless a bound
// is in force, whose end does it. It takes a collection, and then some 30 ms of one
// processor for 400 MB. By itself the runtime would keep as much as was live in the work,
// twice over, for as long as the node is idle. It is safe for concurrent use.
func Release() {
	mu.Lock()
	defer mu.Unlock()
	if users == 0 {
		debug.FreeOSMemory()
	}
}

// held returns the memory of the runtime in bytes, counted like a memory limit.
func held() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	n := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	return int64(min(n, math.MaxInt64/2))
}
