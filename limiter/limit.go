package limiter

import (
	"fmt"
	"strings"
)

// Bounds of a limit. Every product an algorithm forms stays at or below
// MaxExact, the largest integer that a double (a Redis Lua number) holds
// without a gap.
const (
	// MaxExact is 2^53-1.
	MaxExact int64 = 1<<53 - 1
	// MaxWindow is the longest window, in milliseconds: ten years of 365.25 days.
	MaxWindow int64 = 315_576_000_000
	// MaxBuckets is the largest number of sub-windows of sliding_window_buckets.
	MaxBuckets int64 = 1440
	// DefaultBuckets is the number of sub-windows when none is given.
	DefaultBuckets int64 = 60
	// MaxLogUnits bounds sliding_window_log, which stores up to one entry a unit.
	MaxLogUnits int64 = 1_000_000
	// MaxLeases bounds concurrency, which stores one lease a holder.
	MaxLeases int64 = 100_000
)

// Algorithm names how consumption is counted. The zero value is no algorithm.
type Algorithm uint8

// The algorithms. docs/algorithms.md gives the published bound of each.
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
)

// DefaultAlgorithm is used where a limit names none.
const DefaultAlgorithm = SlidingWindowCounter

var algorithmNames = [...]string{
	FixedWindow:          "fixed_window",
	SlidingWindowLog:     "sliding_window_log",
	SlidingWindowCounter: "sliding_window_counter",
	SlidingWindowBuckets: "sliding_window_buckets",
	TokenBucket:          "token_bucket",
	GCRA:                 "gcra",
	LeakyBucket:          "leaky_bucket",
	LeakyQueue:           "leaky_queue",
	Concurrency:          "concurrency",
}

// Algorithms lists every algorithm in the order of the documentation.
func Algorithms() []Algorithm {
	return []Algorithm{
		FixedWindow, SlidingWindowLog, SlidingWindowCounter, SlidingWindowBuckets,
		TokenBucket, GCRA, LeakyBucket, LeakyQueue, Concurrency,
	}
}

// String gives the name used in JSON, SQL and YAML; "" for the zero value.
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", a)
}

// ParseAlgorithm reads a name as String gives it. The error lists the names.
func ParseAlgorithm(name string) (Algorithm, error) {
	for _, a := range Algorithms() {
		if algorithmNames[a] == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(algorithmNames[1:], ", "))
}

// Bucketed reports whether the algorithm has a burst: a level that drains at a
// steady rate.
func (a Algorithm) Bucketed() bool {
	return a == TokenBucket || a == GCRA || a == LeakyBucket || a == LeakyQueue
}

// Kind is the two-letter form of the stored state. Algorithms of one kind can
// read each other's state, so an edit between them keeps consumption; the kind
// is part of a bucket's key, so an edit to another kind starts afresh.
func (a Algorithm) Kind() string {
	switch a {
	case FixedWindow:
		return "fw"
	case SlidingWindowLog:
		return "sl"
	case SlidingWindowCounter:
		return "sc"
	case SlidingWindowBuckets:
		return "sb"
	case TokenBucket, LeakyBucket, LeakyQueue:
		return "lv"
	case GCRA:
		return "ga"
	case Concurrency:
		return "cc"
	}
	return ""
}

// Align says where a fixed window starts. The zero value is AlignCalendar.
type Align uint8

const (
	// AlignCalendar starts windows at Anchor plus whole multiples of Window.
	AlignCalendar Align = iota
	// AlignFirstHit starts a window at the first admitted request.
	AlignFirstHit
)

// String gives the name used in JSON, SQL and YAML.
func (a Align) String() string {
	if a == AlignFirstHit {
		return "first_hit"
	}
	return "calendar"
}

// ParseAlign reads a name as String gives it.
func ParseAlign(name string) (Align, error) {
	switch name {
	case "calendar":
		return AlignCalendar, nil
	case "first_hit":
		return AlignFirstHit, nil
	}
	return 0, fmt.Errorf("must be calendar or first_hit")
}

// Limit is units per window with an algorithm. It is a plain value; compare it
// with ==. Fields that its algorithm does not use are zero.
type Limit struct {
	Algorithm Algorithm
	// Count is the number of units per window, 0 to MaxExact. 0 admits nothing.
	Count int64
	// Window is in milliseconds, 1 to MaxWindow. For concurrency it is how long
	// a lease lives.
	Window int64
	// Burst is the capacity of the bucket algorithms, in units, already
	// defaulted to Count by the caller where none was given.
	Burst int64
	// Align and Anchor (ms since the epoch, may be negative) place the windows
	// of fixed_window.
	Align  Align
	Anchor int64
	// Buckets is the number of sub-windows of sliding_window_buckets.
	Buckets int64
}

// Capacity is the largest weight that an empty bucket admits.
func (l Limit) Capacity() int64 {
	if l.Algorithm.Bucketed() {
		if l.Algorithm == GCRA && l.Count == 0 {
			return 0
		}
		return l.Burst
	}
	return l.Count
}

// Rate is Decision.Rate of decisions on the limit.
func (l Limit) Rate() int64 {
	if l.Algorithm.Bucketed() {
		return l.Count
	}
	return 0
}

// Problem is one thing wrong with a limit. Field is its JSON name.
type Problem struct {
	Field   string
	Message string
}

// Problems lists everything wrong with the limit, nil when it can be decided
// exactly by every store. It checks ranges, settings that belong to another
// algorithm, and the products that must stay within MaxExact.
func (l Limit) Problems() []Problem {
	var ps []Problem
	add := func(field, format string, args ...any) {
		ps = append(ps, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if l.Algorithm.Kind() == "" {
		_, err := ParseAlgorithm("")
		add("algorithm", "%s", err)
	}
	if l.Count < 0 || l.Count > MaxExact {
		add("limit", "must be between 0 and %d", MaxExact)
	}
	if l.Window < 1 || l.Window > MaxWindow {
		add("window_ms", "must be between 1 and %d (ten years)", MaxWindow)
	}
	if l.Burst < 0 || l.Burst > MaxExact {
		add("burst", "must be between 0 and %d", MaxExact)
	}
	if l.Anchor < -MaxWindow || l.Anchor > MaxWindow*20 {
		add("anchor_ms", "must be between %d and %d", -MaxWindow, MaxWindow*20)
	}
	if len(ps) > 0 {
		return ps
	}
	l.foreignProblems(add)
	l.productProblems(add)
	return ps
}

// foreignProblems reports settings that the algorithm would ignore.
func (l Limit) foreignProblems(add func(field, format string, args ...any)) {
	if l.Burst != 0 && !l.Algorithm.Bucketed() {
		add("burst", "does not apply to %s; it belongs to token_bucket, gcra, leaky_bucket and leaky_queue", l.Algorithm)
	}
	if l.Algorithm != FixedWindow {
		if l.Align != AlignCalendar {
			add("align", "does not apply to %s, only to fixed_window", l.Algorithm)
		}
		if l.Anchor != 0 {
			add("anchor_ms", "does not apply to %s, only to fixed_window", l.Algorithm)
		}
	} else if l.Anchor != 0 && l.Align == AlignFirstHit {
		add("anchor_ms", "does not apply to align first_hit, because such a window starts at its first request")
	}
	if l.Buckets != 0 && l.Algorithm != SlidingWindowBuckets {
		add("buckets", "does not apply to %s; it belongs to sliding_window_buckets", l.Algorithm)
	}
}

// productProblems reports limits too large to be decided exactly.
func (l Limit) productProblems(add func(field, format string, args ...any)) {
	switch l.Algorithm {
	case SlidingWindowCounter, SlidingWindowBuckets:
		if l.Count > MaxExact/l.Window {
			add("limit", "times window_ms must not exceed %d, so at most %d with this window", MaxExact, MaxExact/l.Window)
		}
		if l.Algorithm == SlidingWindowBuckets && (l.Buckets < 1 || l.Buckets > MaxBuckets || l.Buckets > l.Window) {
			add("buckets", "must be between 1 and %d and not above window_ms", MaxBuckets)
		}
	case TokenBucket, GCRA, LeakyBucket, LeakyQueue:
		if l.Burst > MaxExact/l.Window {
			add("burst", "(or the limit it defaults to) times window_ms must not exceed %d, so at most %d with this window", MaxExact, MaxExact/l.Window)
		}
	case SlidingWindowLog:
		if l.Count > MaxLogUnits {
			add("limit", "must not exceed %d for sliding_window_log, which stores an entry a request; sliding_window_counter has no such bound", MaxLogUnits)
		}
	case Concurrency:
		if l.Count > MaxLeases {
			add("limit", "must not exceed %d for concurrency", MaxLeases)
		}
	}
}

// Validate is Problems as an error; nil when there are none.
func (l Limit) Validate() error {
	ps := l.Problems()
	if len(ps) == 0 {
		return nil
	}
	msgs := make([]string, len(ps))
	for i, p := range ps {
		msgs[i] = p.Field + " " + p.Message
	}
	return fmt.Errorf("invalid limit: %s", strings.Join(msgs, "; "))
}
