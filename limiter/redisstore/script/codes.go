package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sluice/limiter"
)

// Operations that only the script knows; the first three are of parts of a request that spans slots.
const (
	// OpUndo reverts what a part has booked, exactly.
	OpUndo = limiter.OpRestore + 1
	// OpCommit takes, or confirms a stored answer so that nobody undoes it.
	OpCommit = limiter.OpRestore + 2
	// OpCount counts one denial in each ban, and lowers limits that buckets keep below their spent units; all of them
	// belong to a denied take.
	OpCount = limiter.OpRestore + 3
	// OpMove precedes a request, for one of its asks: it moves the spent units of the former bucket to the bucket of
	// the ask.
	OpMove = limiter.OpRestore + 4
)

// operations names the codes of operations, which equal limiter.Op.
var operations = [...]string{
	limiter.OpTake:    "TAKE",
	limiter.OpPeek:    "PEEK",
	limiter.OpCharge:  "CHARGE",
	limiter.OpRefund:  "REFUND",
	limiter.OpReset:   "RESET",
	limiter.OpRelease: "RELEASE",
	limiter.OpRenew:   "RENEW",
	limiter.OpSettle:  "SETTLE",
	limiter.OpApply:   "APPLY",
	limiter.OpRestore: "RESTORE",
	OpUndo:            "UNDO",
	OpCommit:          "COMMIT",
	OpCount:           "COUNT",
	OpMove:            "MOVE",
	limiter.OpClose:   "CLOSE",
}

// algorithms lists the codes of algorithms, which are the indexes, and the files
// of their kernels. Records in Redis store the codes, so a code keeps its meaning
// for ever. A new algorithm takes the next free code, whatever its
// limiter.Algorithm is.
var algorithms = [...]struct {
	name      string
	algorithm limiter.Algorithm
	align     limiter.Align
	kernel    string // its files
	list      bool   // its state is a list or a sorted set, not one string
	kept      bool   // the bucket may keep a limit: Limit.Kept
}{
	1:  {name: "FIXED_WINDOW", algorithm: limiter.FixedWindow, kernel: "fixed.lua"},
	2:  {name: "LOG", algorithm: limiter.SlidingWindowLog, kernel: "logblocks.lua log.lua", list: true},
	3:  {name: "COUNTER", algorithm: limiter.SlidingWindowCounter, kernel: "counter.lua"},
	4:  {name: "BUCKETS", algorithm: limiter.SlidingWindowBuckets, kernel: "buckets.lua"},
	5:  {name: "TOKEN_BUCKET", algorithm: limiter.TokenBucket, kernel: "bucket.lua"},
	6:  {name: "GCRA", algorithm: limiter.GCRA, kernel: "bucket.lua"},
	7:  {name: "LEAKY_BUCKET", algorithm: limiter.LeakyBucket, kernel: "bucket.lua"},
	8:  {name: "LEAKY_QUEUE", algorithm: limiter.LeakyQueue, kernel: "bucket.lua"},
	9:  {name: "CONCURRENCY", algorithm: limiter.Concurrency, kernel: "slotsums.lua slots.lua", list: true},
	10: {name: "FIRST_HIT", algorithm: limiter.FixedWindow, align: limiter.AlignFirstHit, kernel: "fixed.lua"},
	11: {name: "BAN", algorithm: limiter.Ban, kernel: "ban.lua"},
	12: {name: "TALLY", algorithm: limiter.Tally, kernel: "counter.lua"},
	13: {name: "KEPT", algorithm: limiter.FixedWindow, kernel: "fixed.lua", kept: true},
	14: {name: "KEPT_FIRST_HIT", algorithm: limiter.FixedWindow, align: limiter.AlignFirstHit, kernel: "fixed.lua",
		kept: true},
}

// keptCode is the first code of limits with limiter.Kept, in the order of limiter.Align. The count of one with KeptSet
// is on the wire as -1 less the count.
const keptCode = 13

// Marks that are added to a code.
const (
	guard = 16  // to an algorithm that spans regions, times limiter.GuardMode
	spans = 32  // to an algorithm: the limit spans regions
	looks = 128 // to an algorithm: the ask looks in a take
	keeps = 16  // to an operation: the time to keep its record and its attempt follow
	high  = -1  // no algorithm; the high-water marks
	plain = 32  // to the number of asks of a plain take, instead of an operation
)

// These do not compile once a code reaches a mark.
var (
	_ [guard - len(algorithms)]struct{}
	_ [looks - spans - guard*(1+int(limiter.GuardShare))]struct{}
	_ [keeps - len(operations)]struct{}
	_ [plain - keeps - len(operations)]struct{}
)

// The layout of sums; see layout.lua.
const (
	sumsHot = 22 // bytes of the hot part
	// Marks, without the size of the rest.
	sumsUnlisted = 1 << 23
	sumsListed   = sumsUnlisted + 1<<22
	noWindow     = -limiter.MaxExact
	// The first bytes of the marks. No state begins with one of them.
	headUnlisted = sumsUnlisted >> 16
	headListed   = sumsListed >> 16
	// plainWeight is the largest weight of a take that is decided without reading the total of its sums: even billions
	// of such takes in a window do not exceed what sums can hold, unless more than limiter.MostTold units are unsent.
	plainWeight = 1 << 20
	// lead is added to the share of a guard.
	lead = 2 * limiter.FullShare
	// held replaces the delay in the answer of a take that a guard holds back.
	held = -2
	// keepLife stands for how long a state counts that is stored for long enough already.
	keepLife = -1
)

// oneOff is how long a quota that never drains is kept, ms: 366 days.
const oneOff = 31_622_400_000

// codes gives the code of each algorithm and align; 0, which the script refuses, for algorithms that are not listed.
var codes = func() (of [256][2]uint8) {
	for code, a := range algorithms {
		if a.algorithm != 0 && !a.kept {
			of[a.algorithm][a.align] = uint8(code) //nolint:gosec // below looks
		}
	}
	return of
}()

// numbers are the names that the Lua files use without defining them.
var numbers = func() map[string]int64 {
	n := map[string]int64{
		"HIGH": high, "SPANS": spans, "SUMS_HOT": sumsHot,
		"SUMS_LISTED": sumsListed, "SUMS_UNLISTED": sumsUnlisted,
		"HEAD_LISTED": headListed, "HEAD_UNLISTED": headUnlisted, "PLAIN_WEIGHT": plainWeight, "MOST_TOLD": limiter.MostTold,
		"GUARD": guard, "GUARD_SHARE": int64(limiter.GuardShare), "FULL_SHARE": limiter.FullShare, "LEAD": lead, "HELD": held,
		"NO_WINDOW":   noWindow,
		"KEEP_LIFE":   keepLife,
		"SUMS_MARGIN": limiter.SumsMargin, "SHAPES": limiter.MaxBuckets + 1, "LONGEST": limiter.MaxWindow, "ONE_OFF": oneOff,
		"APPLIED": int64(limiter.Applied), "REPEATED": int64(limiter.Repeated), "SHRUNK": int64(limiter.Shrunk),
		"MAX": limiter.MaxExact, "NEVER": limiter.Never, "LOOKS": looks, "KEEPS": keeps, "PLAIN": plain,
		"ATTEMPTS_MAX": limiter.MaxAttempts,
		"ANSWERED":     kindAnswered, "STORED": kindStored, "REFUSED": kindRefused, "STORED_COMMITTED": kindCommitted,
		"ANSWERED_PLAIN": kindPlain, "ANSWERED_DELAYED": kindDelayed,
	}
	for code, name := range operations {
		n[name] = int64(code)
	}
	for code, a := range algorithms {
		if a.name != "" {
			n[a.name] = int64(code)
		}
	}
	return n
}()

// sets are the algorithms that a Lua file means by NAME(code).
var sets = map[string]func(code int) bool{
	"LIST":        func(code int) bool { return algorithms[code].list },
	"DRAINS":      func(code int) bool { return traits(code).Decay == limiter.DecayDrain },
	"DECAYS_EACH": func(code int) bool { return traits(code).Decay == limiter.DecayEach },
	"INSTANT":     func(code int) bool { return traits(code).Instant },
	// Windows of different shapes may have one number.
	"SHAPED": func(code int) bool {
		a := &algorithms[code]
		return a.algorithm == limiter.SlidingWindowBuckets || a.align == limiter.AlignFirstHit
	},
	"KEEPS_LIMIT": func(code int) bool { return algorithms[code].kept },
	"HOLDS_SLOTS": func(code int) bool { return traits(code).Slots },
}

func traits(code int) *limiter.Traits { return algorithms[code].algorithm.Traits() }

// condition is true in Lua if the expression is the code of an algorithm that in
// accepts, with or without the marks of limits that span regions.
func condition(expression string, in func(code int) bool) string {
	var tests, spanning []string
	for code, a := range algorithms {
		if a.name != "" && in(code) {
			tests = append(tests, fmt.Sprintf("%s == %d", expression, code))
			if a.algorithm.Traits().Spans() && !a.kept {
				spanning = append(spanning, fmt.Sprintf("%s %% %d == %d", expression, guard, code))
			}
		}
	}
	if len(spanning) > 0 {
		tests = append(tests, fmt.Sprintf("%s > %d and (%s)", expression, spans, strings.Join(spanning, " or ")))
	}
	return "(" + strings.Join(tests, " or ") + ")"
}

var (
	member   = regexp.MustCompile(`\b([A-Z][A-Z_]+)\(([\w.]+)\)`)
	capitals = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)
)

// withNumbers puts numbers and comparisons with numbers in place of the names of
// sets and numbers. A literal costs a call nothing; a local that functions use
// costs it each time.
func withNumbers(lua string) string {
	lua = member.ReplaceAllStringFunc(lua, func(text string) string {
		parts := member.FindStringSubmatch(text)
		if parts[1] == "SPANS_REGIONS" {
			return fmt.Sprintf("(%s > %d)", parts[2], spans)
		}
		if in, ok := sets[parts[1]]; ok {
			return condition(parts[2], in)
		}
		return text
	})
	return capitals.ReplaceAllStringFunc(lua, func(name string) string {
		if n, ok := numbers[name]; ok {
			return strconv.FormatInt(n, 10)
		}
		return name
	})
}
