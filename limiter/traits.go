package limiter

import (
	"fmt"
	"strings"
)

// Algorithm names how consumption is counted. The zero value is no algorithm.
type Algorithm uint8

// The algorithms. docs/algorithms.md has the published bound of each. Their
// numbers are stored in snapshots and records: append new ones at the end.
const (
	FixedWindow Algorithm = iota + 1
	SlidingWindowLog
	SlidingWindowCounter
	SlidingWindowBuckets
	TokenBucket
	GCRA
	LeakyBucket
	LeakyQueue
	Concurrency
	// Ban is the algorithm of a ban, not of a limit; see BanLimit.
	Ban
	// Tally is the algorithm of a pool that only counts: a sliding_window_counter that never denies and counts up to
	// its limit. It shares its state with SlidingWindowCounter, whose takes of the same bucket may be denied.
	Tally
	algorithmsEnd
)

// DefaultAlgorithm is used where a limit names none.
const DefaultAlgorithm = SlidingWindowCounter

// Traits is everything that other code needs to know about an algorithm. A new algorithm is
// a kernel, its twin in Lua, its model in storetest, and one row of this table.
type Traits struct {
	// Name is the word used in JSON, SQL and YAML; Title the one for people.
	Name, Title string
	// Kind is the two-letter form of the stored state. Algorithms of one kind can
	// read each other's state, so an edit between them keeps the bucket; the kind
	// is part of a bucket's key, so an edit to another kind needs Ask.Former.
	Kind string
	// Setting is the setting that a limit has in addition to Count and Window.
	Setting Setting
	// Decay is how charged units cease to count.
	Decay Decay
	// MaxUnits bounds the capacity where the state grows with it; 0 elsewhere.
	MaxUnits int64
	// Divisible: parts of a limit add up to it, so a hot key may be leased and
	// sharded.
	Divisible bool
	// Queues: a request is admitted with a delay.
	Queues bool
	// Slots: a unit is held under the request's id until it is released. There is
	// no charge, no refund and no record of it.
	Slots bool
	// Instant: the state is the instant at which all has drained. So it never
	// holds more than the limit in force admits, and a Count of 0 admits nothing.
	Instant bool
	// Internal: no limit that people write has it.
	Internal bool

	kernel kernel
}

// Setting is a setting of a limit in addition to Count and Window.
type Setting uint8

// The settings.
const (
	SettingNone    Setting = iota
	SettingBurst           // Limit.Burst
	SettingAlign           // Limit.Align and Limit.Anchor
	SettingBuckets         // Limit.Buckets
)

// Decay is how charged units cease to count.
type Decay uint8

// The ways to decay. The zero value belongs to no algorithm.
const (
	DecayNone    Decay = iota
	DecayAtOnce        // all units of a window, when it ends
	DecaySliding       // the units of a window or sub-window fade after it has ended
	DecayEach          // each charge, one window after it was booked
	DecayDrain         // the level drains at Count units per Window
)

var traits = [algorithmsEnd]Traits{
	{kernel: levelKernel{}}, // no algorithm
	FixedWindow: {
		Name: "fixed_window", Title: "Fixed window", Kind: "fw", kernel: fixedKernel{},
		Setting: SettingAlign, Decay: DecayAtOnce, Divisible: true,
	},
	SlidingWindowLog: {
		Name: "sliding_window_log", Title: "Sliding window log", Kind: "sl", kernel: logKernel{},
		Decay: DecayEach, MaxUnits: MaxLogUnits,
	},
	SlidingWindowCounter: {
		Name: "sliding_window_counter", Title: "Sliding window counter", Kind: "sc", kernel: counterKernel{},
		Decay: DecaySliding, Divisible: true,
	},
	SlidingWindowBuckets: {
		Name: "sliding_window_buckets", Title: "Sliding window of sub-windows", Kind: "sb", kernel: bucketsKernel{},
		Setting: SettingBuckets, Decay: DecaySliding, Divisible: true,
	},
	TokenBucket: {
		Name: "token_bucket", Title: "Token bucket", Kind: "lv", kernel: levelKernel{},
		Setting: SettingBurst, Decay: DecayDrain, Divisible: true,
	},
	GCRA: {
		Name: "gcra", Title: "GCRA", Kind: "ga", kernel: gcraKernel{},
		Setting: SettingBurst, Decay: DecayDrain, Divisible: true, Instant: true,
	},
	LeakyBucket: {
		Name: "leaky_bucket", Title: "Leaky bucket", Kind: "lv", kernel: levelKernel{},
		Setting: SettingBurst, Decay: DecayDrain, Divisible: true,
	},
	LeakyQueue: {
		Name: "leaky_queue", Title: "Leaky queue", Kind: "lv", kernel: levelKernel{},
		Setting: SettingBurst, Decay: DecayDrain, Queues: true,
	},
	Concurrency: {
		Name: "concurrency", Title: "Concurrency", Kind: "cc", kernel: slotKernel{},
		Decay: DecayEach, MaxUnits: MaxSlots, Slots: true,
	},
	Tally: {
		Name: "tally", Title: "Tally", Kind: "sc", kernel: tallyKernel{}, Decay: DecaySliding, Internal: true,
	},
	Ban: {Name: "ban", Title: "Ban", Kind: "bn", kernel: banKernel{}, Decay: DecayAtOnce, Internal: true},
}

// Traits returns the algorithm's row, or the row of the zero value if the algorithm does not exist. It must not be
// changed.
func (a Algorithm) Traits() *Traits {
	if a >= algorithmsEnd {
		a = 0
	}
	return &traits[a]
}

// Exists reports whether a is one of Algorithms, or internal.
func (a Algorithm) Exists() bool { return a > 0 && a < algorithmsEnd }

// Algorithms lists the algorithms that a limit can have, in the order of the documentation.
func Algorithms() []Algorithm {
	all := make([]Algorithm, 0, algorithmsEnd-1)
	for a := Algorithm(1); a < algorithmsEnd; a++ {
		if !traits[a].Internal {
			all = append(all, a)
		}
	}
	return all
}

// String returns the name used in JSON, SQL and YAML, "" for the zero value.
func (a Algorithm) String() string {
	if a < algorithmsEnd {
		return traits[a].Name
	}
	return fmt.Sprintf("algorithm(%d)", a)
}

// Kind returns the two letters of the stored state, "" if the algorithm does not exist.
func (a Algorithm) Kind() string { return a.Traits().Kind }

// Bucketed reports whether the algorithm has a burst: a level that drains at a
// steady rate.
func (a Algorithm) Bucketed() bool { return a.Traits().Setting == SettingBurst }

// ParseAlgorithm parses a name as returned by String. The error lists the names.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a := Algorithm(1); a < algorithmsEnd; a++ {
		if traits[a].Name == name && !traits[a].Internal {
			return a, nil
		}
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(namesOf(func(*Traits) bool { return true }), ", "))
}

// Owners names the algorithms that have the setting: "a", or "a, b and c".
func (s Setting) Owners() string {
	names := namesOf(func(t *Traits) bool { return t.Setting == s })
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func namesOf(chosen func(*Traits) bool) (names []string) {
	for a := Algorithm(1); a < algorithmsEnd; a++ {
		if chosen(&traits[a]) && !traits[a].Internal {
			names = append(names, traits[a].Name)
		}
	}
	return names
}
