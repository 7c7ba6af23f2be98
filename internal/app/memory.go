package app

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"sluice/internal/tick"
)

// How often this process checks its memory.
const (
	// heapCheckInterval is how often the garbage collector's target is adapted to the live heap. Between two checks the
	// heap may grow to five times the live heap of the last collection (maxGCPercent); two large batches fill 100 MB in
	// that time.
	heapCheckInterval = 100 * time.Millisecond
	// shrinkCheckInterval is how often shrinkDetector checks the size of the counters.
	shrinkCheckInterval = time.Second
)

// garbageBudget is the memory budget of the heap, in MiB; see applyMemoryBudget.
const garbageBudget = 64

// applyMemoryBudget lets the heap grow to a budget in MiB before garbage is collected. By default Go collects each time
// the heap has doubled, which happens many times per second for the few MiB of a node without counters in memory. It
// returns a function that restores the default. A budget of 0, or GOGC in the environment, disables it. GOMEMLIMIT
// applies in any case.
func applyMemoryBudget(budget int) func(context.Context) error {
	if budget <= 0 || os.Getenv("GOGC") != "" {
		return func(context.Context) error { return nil }
	}
	before := debug.SetGCPercent(gcPercent(liveHeap(), budget))
	stop := task(func(ctx context.Context) { followLiveHeap(ctx, budget) })
	return func(wait context.Context) error {
		err := stop(wait)
		debug.SetGCPercent(before)
		return err
	}
}

// followLiveHeap updates the collector's target when the live heap has changed by more
// than an eighth.
func followLiveHeap(ctx context.Context, budget int) {
	set := liveHeap()
	for range tick.Every(ctx, heapCheckInterval) {
		if live := liveHeap(); math.Abs(float64(live)-float64(set)) > float64(set)/8 {
			set = live
			debug.SetGCPercent(gcPercent(live, budget))
		}
	}
}

const mebibyte = 1 << 20

// maxGCPercent bounds the collector's percentage. A higher one saves little, and the
// heap could exceed the budget by whatever the live heap grows between two checks of
// followLiveHeap.
const maxGCPercent = 400

// gcPercent is the collector's percentage with which the heap grows to the budget, in
// MiB, for a live heap in bytes. It is between 100, Go's default, and maxGCPercent, so
// that a budget that is too small costs nothing.
func gcPercent(live uint64, budget int) int {
	target := float64(budget) * mebibyte
	use := math.Max(float64(live), mebibyte)
	return int(min(max(100, 100*(target-use)/use), maxGCPercent))
}

// liveHeap is the live heap as of the last collection, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// When memory that the counters freed is returned to the system.
const (
	// minShrinkBytes is how many bytes the counters must have freed at least.
	minShrinkBytes = 16 * mebibyte
	// minStableChecks is in how many checks in a row their size must not have changed by
	// more than an eighth.
	minStableChecks = 5
)

// shrinkDetector detects that the counters in memory freed a large part of their memory. Go would keep it for later
// allocations: for minutes on an idle node, and forever on a busy one.
type shrinkDetector struct {
	// largest is the largest size since the last release, last the size at the last check.
	largest, last int64
	stable        int // checks in a row without a change
}

// check takes the size in bytes and reports whether to return memory to the system.
func (s *shrinkDetector) check(size int64) bool {
	if change := size - s.last; max(change, -change) > s.last/8 {
		s.stable = 0
	}
	s.stable++
	s.last, s.largest = size, max(s.largest, size)
	if s.stable < minStableChecks || size > s.largest/2 || s.largest-size < minShrinkBytes {
		return false
	}
	s.largest, s.stable = size, 0
	return true
}

// releaseMemory returns memory to the system when counters of the given size have
// freed it, until ctx ends.
func releaseMemory(ctx context.Context, size func() int64) {
	var s shrinkDetector
	for range tick.Every(ctx, shrinkCheckInterval) {
		if s.check(size()) {
			debug.FreeOSMemory()
		}
	}
}

// Bounds of the number of keys for SLUICE_MAX_KEYS=auto, and the bytes assumed for
// each key.
const (
	minAutoKeys = 100_000
	maxAutoKeys = 20_000_000
	bytesPerKey = 200
	// autoMemoryDivisor gives the keys a quarter of the memory.
	autoMemoryDivisor = 4
)

// memoryLimit is a limit of the memory of this process, in bytes, and its source.
type memoryLimit struct {
	bytes uint64
	name  string
}

// memoryLimits returns the known limits: GOMEMLIMIT, the container's limit, and the
// memory of this machine.
func memoryLimits() []memoryLimit {
	var known []memoryLimit
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		known = append(known, memoryLimit{uint64(n), "GOMEMLIMIT"})
	}
	if n, err := memlimit.FromCgroup(); err == nil && n > 0 {
		known = append(known, memoryLimit{n, "the container's memory limit"})
	}
	if n, err := memlimit.FromSystem(); err == nil && n > 0 {
		known = append(known, memoryLimit{n, "this machine's memory"})
	}
	return known
}

// keyBound is the maximum number of keys in memory, and its reason.
type keyBound struct {
	keys    int
	because string
}

// keyLimit returns the maximum number of keys for a setting; 0 derives it from the
// smallest of the memory limits.
func keyLimit(setting int, limits []memoryLimit) keyBound {
	if setting > 0 {
		return keyBound{setting, "SLUICE_MAX_KEYS"}
	}
	if len(limits) == 0 {
		return keyBound{minAutoKeys, "the memory of this machine is unknown"}
	}
	least := limits[0]
	for _, l := range limits[1:] {
		if l.bytes < least.bytes {
			least = l
		}
	}
	keys := least.bytes / autoMemoryDivisor / bytesPerKey
	return keyBound{int(min(max(keys, minAutoKeys), maxAutoKeys)), least.name}
}
