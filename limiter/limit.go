package limiter

import (
	"cmp"
	"fmt"
	"math/bits"
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
	// MaxSlots bounds concurrency, which stores one entry a slot.
	MaxSlots int64 = 100_000
)

// Align says where a fixed window starts. The zero value is AlignCalendar.
type Align uint8

const (
	// AlignCalendar starts windows at Anchor plus whole multiples of Window.
	AlignCalendar Align = iota
	// AlignFirstHit starts a window at the first admitted request.
	AlignFirstHit
)

// String returns the name used in JSON, SQL and YAML.
func (a Align) String() string {
	if a == AlignFirstHit {
		return "first_hit"
	}
	return "calendar"
}

// ParseAlign parses a name as returned by String.
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
	// a slot is held unless it is renewed.
	Window int64
	// Burst is the capacity of the bucket algorithms, in units. The caller has set it to Count if none was given. For a
	// log, see Sparing.
	Burst int64
	// Align and Anchor (ms since the epoch, may be negative) place the windows
	// of fixed_window.
	Align  Align
	Anchor int64
	// Kept, for fixed_window only, says whether the bucket may keep a smaller limit. Such a limit does not span
	// regions, and is not divided.
	Kept Kept
	// Buckets is the number of sub-windows of sliding_window_buckets.
	Buckets int64
	// PerPeriod: fixed_window with AlignCalendar has a bucket for each period, which stays readable for a while after its
	// end; see At. The key of an ask has the period (Suffix).
	PerPeriod bool
	// In a Ban, these fields have other meanings; see BanLimit.
}

// Kept says how a Limit uses the limit that its bucket keeps. The bucket drops that limit when its window ends.
type Kept uint8

const (
	// KeptIgnored leaves the kept limit as it is, and Limit.Count alone counts.
	KeptIgnored Kept = iota
	// KeptObeyed lets the smaller of Limit.Count and the kept limit count.
	KeptObeyed
	// KeptSet is KeptObeyed, and a take or charge that spends something makes Limit.Count the kept limit if it is
	// smaller. A take that this limit denies does so too if more than Limit.Count is already spent, so that lowering
	// the limit below the spent units stops all takes. Other denied takes change nothing. Looks and settlements change
	// nothing either.
	KeptSet
)

// Capacity returns the largest weight that an unused bucket admits.
func (l Limit) Capacity() int64 {
	switch t := l.Algorithm.Traits(); {
	case t.Setting != SettingBurst:
		return l.Count
	case t.Instant && l.Count == 0:
		return 0
	}
	return l.Burst
}

// MaxCapacity returns the largest capacity that every store decides exactly with the
// algorithm and the window.
func (l Limit) MaxCapacity() int64 {
	switch t := l.Algorithm.Traits(); {
	case t.MaxUnits > 0:
		return t.MaxUnits
	case t.Decay == DecaySliding || t.Decay == DecayDrain: // fractions are kept, in 1/Window
		return MaxExact / l.Window
	}
	return MaxExact
}

// Rate returns the Decision.Rate of decisions on the limit.
func (l Limit) Rate() int64 {
	if l.Algorithm.Traits().Setting == SettingBurst {
		return l.Count
	}
	return 0
}

// Problem is one thing wrong with a limit. Field is its JSON name.
type Problem struct {
	Field   string
	Message string
}

// Problems returns everything that is wrong with the limit, nil if every store can decide it
// exactly. It checks ranges, settings of other algorithms, and the products that must not
// exceed MaxExact.
func (l Limit) Problems() []Problem {
	var ps []Problem
	add := func(field, format string, args ...any) {
		ps = append(ps, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !l.Algorithm.Exists() {
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
	for _, given := range []struct {
		field string
		of    Setting
		is    bool
	}{
		{"burst", SettingBurst, l.Burst != 0}, {"align", SettingAlign, l.Align != AlignCalendar},
		{"anchor_ms", SettingAlign, l.Anchor != 0}, {"buckets", SettingBuckets, l.Buckets != 0},
	} {
		if given.is && l.Algorithm.Traits().Setting != given.of {
			add(given.field, "does not apply to %s, only to %s", l.Algorithm, given.of.Owners())
		}
	}
	if l.Algorithm.Traits().Setting == SettingAlign && l.Anchor != 0 && l.Align == AlignFirstHit {
		add("anchor_ms", "does not apply to align first_hit, because such a window starts at its first request")
	}
}

// productProblems reports limits that are too large for exact decisions.
func (l Limit) productProblems(add func(field, format string, args ...any)) {
	t, most := l.Algorithm.Traits(), l.MaxCapacity()
	switch {
	case t.Setting == SettingBurst && l.Burst > most:
		add("burst", "(or the limit it defaults to) times window_ms must not exceed %d, so at most %d with this window",
			MaxExact, most)
	case t.Setting != SettingBurst && l.Count > most && t.MaxUnits > 0:
		add("limit", "must not exceed %d for %s, which stores an entry for each request", most, l.Algorithm)
	case t.Setting != SettingBurst && l.Count > most:
		add("limit", "times window_ms must not exceed %d, so at most %d with this window", MaxExact, most)
	}
	if t.Setting == SettingBuckets && (l.Buckets < 1 || l.Buckets > MaxBuckets || l.Buckets > l.Window) {
		add("buckets", "must be between 1 and %d and not above window_ms", MaxBuckets)
	}
}

// Validate returns Problems as an error, nil if there are none.
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

// Never is the retry-after or reset if waiting does not help: for a weight above
// the limit, or a quota that does not refill.
const Never int64 = -1

// Decision is the decision of one limit on one request. All times are milliseconds
// measured from the request's own time. The zero value is a denial.
type Decision struct {
	// Allowed: the weight fits. If several limits are taken together, each has a separate answer; nothing was spent
	// unless all of them allowed.
	Allowed bool
	// Limit is the largest weight that the bucket ever admits: the count, or the
	// burst of a bucket algorithm.
	Limit int64
	// Rate is the count of a bucket algorithm's limit, units per window; 0 for
	// the others, whose Limit it is.
	Rate int64
	// Remaining is the largest weight that would be admitted right now, after
	// this decision; never negative.
	Remaining int64
	// Used is how many units count after this decision, rounded up. It exceeds Limit after a charge or a settlement of
	// more than was left, or while a lowered limit still counts units that were spent before. It stops at MaxExact,
	// divided by the window where fractions count. A denial from a cache may show a slightly older number.
	Used int64
	// RetryAfter is 0 if allowed. Otherwise it is the smallest wait after which the same request is admitted if there
	// are no other requests, or Never.
	RetryAfter int64
	// Reset is the wait until no unit counts as spent, 0 if none counts now, or Never.
	Reset int64
	// Delay is the wait that leaky_queue imposes on an admitted request; Never if it
	// denied the request, and 0 for other algorithms.
	Delay int64
	// Refunded is how many whole units a refund or release gave back.
	Refunded int64
	// BanBegan: this decision, of a ban or of a limit with one, began it.
	BanBegan bool
	// Held: the limit has room, but the region has spent its part until the next update (see Guard). Remaining is the
	// rest of that part.
	Held bool
}

// SetRoom sets Remaining and Used from how many units fit now. A negative number says how far the use is above Limit.
func (d *Decision) SetRoom(room int64) { d.Remaining, d.Used = max(0, room), d.Limit-room }

// InForce returns the limit for people and clients: units per window, and the burst if the
// algorithm has one.
func (d *Decision) InForce(a Algorithm) (limit, burst int64, bucketed bool) {
	if a.Traits().Setting == SettingBurst {
		return d.Rate, d.Limit, true
	}
	return d.Limit, 0, false
}

// StricterThan orders decisions: denied before allowed, then the longer
// retry-after (Never is the longest), then the smaller share of Limit that
// remains, because limits may count in different units, then the fewer remaining.
func (d Decision) StricterThan(e Decision) bool {
	if d.Allowed != e.Allowed {
		return !d.Allowed
	}
	if d.RetryAfter != e.RetryAfter {
		if d.RetryAfter == Never || e.RetryAfter == Never {
			return d.RetryAfter == Never
		}
		return d.RetryAfter > e.RetryAfter
	}
	if c := compareShares(&d, &e); c != 0 {
		return c < 0
	}
	return d.Remaining < e.Remaining
}

// LessLeft reports whether a smaller share of the limit remains than of another.
func (d Decision) LessLeft(e Decision) bool { return compareShares(&d, &e) < 0 }

// compareShares compares the shares of the limits that remain. A limit of 0 has nothing left.
func compareShares(d, e *Decision) int {
	dh, dl := bits.Mul64(uint64(d.Remaining), uint64(max(1, e.Limit))) //nolint:gosec // not negative
	eh, el := bits.Mul64(uint64(e.Remaining), uint64(max(1, d.Limit))) //nolint:gosec // not negative
	return cmp.Or(cmp.Compare(dh, eh), cmp.Compare(dl, el))
}

// Strictest returns the index of the strictest decision, the first among
// equals, or -1 if there is none.
func Strictest(ds []Decision) int {
	best := -1
	for i := range ds {
		if best < 0 || ds[i].StricterThan(ds[best]) {
			best = i
		}
	}
	return best
}
