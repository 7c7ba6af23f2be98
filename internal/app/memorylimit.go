package app

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

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
