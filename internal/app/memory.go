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

// liveInterval is how often the collector's target follows what is in use.
const liveInterval = time.Second

// garbageBudget is how many MiB garbage may fill before it is collected.
const garbageBudget = 64

// collectLess lets garbage fill a memory budget of so many MiB before it is
// collected. By itself Go collects each time the heap has doubled, which for the
// few MiB that a node without counters of its own has in use is many times a
// second. It returns a function that undoes it. A budget of 0 changes nothing,
// and neither does any budget where GOGC was set by whoever started the process.
// GOMEMLIMIT holds in any case.
func collectLess(budget int) func(context.Context) error {
	if budget <= 0 || os.Getenv("GOGC") != "" {
		return func(context.Context) error { return nil }
	}
	before := debug.SetGCPercent(gcPercent(liveHeap(), budget))
	stop := task(func(ctx context.Context) { followLive(ctx, budget) })
	return func(wait context.Context) error {
		err := stop(wait)
		debug.SetGCPercent(before)
		return err
	}
}

// followLive sets the collector's target anew when what is in use has changed by
// more than an eighth.
func followLive(ctx context.Context, budget int) {
	set := liveHeap()
	for range tick.Every(ctx, liveInterval) {
		if live := liveHeap(); math.Abs(float64(live)-float64(set)) > float64(set)/8 {
			set = live
			debug.SetGCPercent(gcPercent(live, budget))
		}
	}
}

const mebibyte = 1 << 20

// mostPercent bounds the collector's percentage. Beyond it little is saved, and
// the heap would outgrow the budget by as much as what is in use grows before
// followLive looks again.
const mostPercent = 400

// gcPercent is the collector's percentage with which the heap grows to the
// budget, in MiB, when so many bytes are in use, at most mostPercent. Where it
// would be less than Go's own 100, it is 100: a budget below the need costs
// nothing.
func gcPercent(live uint64, budget int) int {
	most := float64(budget) * mebibyte
	use := math.Max(float64(live), mebibyte)
	return int(min(max(100, 100*(most-use)/use), mostPercent))
}

// liveHeap is what the last collection found in use, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// How the memory that the counters gave up goes back to the system.
const (
	// shrinkLeast is how many bytes the counters must have given up, at least.
	shrinkLeast = 16 * mebibyte
	// shrinkCalm is for how many looks in a row they must not have changed by more
	// than an eighth.
	shrinkCalm = 5
)

// shrinkage notices that the counters in memory gave up a large part of what they
// had. Without a word Go would keep that for the next garbage: on an idle node for
// minutes, on a busy one for good.
type shrinkage struct {
	// most is the largest size since the last time, last that of the last look.
	most, last int64
	calm       int
}

// look takes the size in bytes and reports whether it is time to give memory back.
func (s *shrinkage) look(size int64) bool {
	if change := size - s.last; max(change, -change) > s.last/8 {
		s.calm = 0
	}
	s.calm++
	s.last, s.most = size, max(s.most, size)
	if s.calm < shrinkCalm || size > s.most/2 || s.most-size < shrinkLeast {
		return false
	}
	s.most, s.calm = size, 0
	return true
}

// returnMemory gives the memory back that counters of the given size gave up, until
// ctx ends.
func returnMemory(ctx context.Context, size func() int64) {
	var s shrinkage
	for range tick.Every(ctx, liveInterval) {
		if s.look(size()) {
			debug.FreeOSMemory()
		}
	}
}

// Bounds of the number of keys that SLUICE_MAX_KEYS=auto gives, and what it reckons
// for each key.
const (
	autoKeysLeast = 100_000
	autoKeysMost  = 20_000_000
	autoKeyBytes  = 200
	// autoKeysPart is the part of the memory that the keys may take: a quarter.
	autoKeysPart = 4
)

// memoryLimit is a bound of this process's memory in bytes, and what sets it.
type memoryLimit struct {
	bytes uint64
	name  string
}

// memoryLimits are the bounds that are known: GOMEMLIMIT, the container's limit, and
// this machine's memory.
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

// keyBound is how many keys are kept in memory at most, and why.
type keyBound struct {
	keys    int
	because string
}

// mostKeys is the number of keys that a setting means; 0 derives it from the
// smallest of the memory limits.
func mostKeys(setting int, limits []memoryLimit) keyBound {
	if setting > 0 {
		return keyBound{setting, "SLUICE_MAX_KEYS"}
	}
	if len(limits) == 0 {
		return keyBound{autoKeysLeast, "the memory of this machine is unknown"}
	}
	least := limits[0]
	for _, l := range limits[1:] {
		if l.bytes < least.bytes {
			least = l
		}
	}
	keys := least.bytes / autoKeysPart / autoKeyBytes
	return keyBound{int(min(max(keys, autoKeysLeast), autoKeysMost)), least.name}
}
