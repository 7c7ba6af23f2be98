package limiter

import (
	"context"
	"strconv"
	"strings"
)

const (
	// PeriodKept is for how long the bucket of a Limit with PerPeriod is readable after its period's end, ms: a day.
	PeriodKept int64 = 86_400_000
	// MinPeriod is the shortest window of a Limit with PerPeriod, ms.
	MinPeriod int64 = 3_600_000
	// periodLead is how much earlier than its period the window of such a bucket begins in stores, ms: the clock of the
	// node that chose the period may be so far ahead of the store's.
	periodLead int64 = 3_600_000
)

// A limit with PerPeriod uses a separate bucket for each period. The bucket's key ends in the period's start, as in
//
//	{user:42}|17|fw.1767225600000
//
// Stores keep it until PeriodKept after the period's end: it can be read until then, and a late settlement counts in
// the period of its request. The node's clock chooses the period. So two nodes whose clocks differ count a request at
// the boundary in one of two periods, never in both.

// At returns the limit for a request at an instant (ms): of a limit that is PerPeriod, the period that contains it
// begins at Anchor.
func (l Limit) At(now int64) Limit {
	if l.PerPeriod {
		l.Anchor += floorDiv(now-l.Anchor, l.Window) * l.Window
	}
	return l
}

// PeriodEnd returns the end of the period of a limit that is PerPeriod, which At has returned; ms.
func (l Limit) PeriodEnd() int64 { return l.Anchor + l.Window }

// Suffix returns the end of the keys of a limit's buckets: the kind of its state and, of a limit that is PerPeriod, the
// start of the period that At has chosen.
func (l Limit) Suffix() string {
	if !l.PerPeriod {
		return l.Algorithm.Kind()
	}
	return string(AppendPeriod([]byte(l.Algorithm.Kind()), l))
}

// AppendPeriod appends to a key what names the period of a limit that is PerPeriod.
func AppendPeriod(key []byte, l Limit) []byte {
	return strconv.AppendInt(append(key, '.'), l.Anchor, 10)
}

// RuleSuffix returns the end of the keys of a rule's buckets, after the facts: |17|sc.
func RuleSuffix(rule int64, l Limit) string {
	return "|" + strconv.FormatInt(rule, 10) + "|" + l.Suffix()
}

// PeriodLister is a store that finds the buckets of limits with PerPeriod, a few at a time.
type PeriodLister interface {
	// PeriodKeys returns the keys of some of these buckets, and where the next call goes on, "" at the end. It begins at
	// "". A bucket that is there all the time is returned at least once.
	PeriodKeys(ctx context.Context, at string) (keys []Key, next string, err error)
}

// Period splits a key into the key of the rule's buckets and the start of a period, ms. ok is false if the limit of the
// bucket is not PerPeriod.
func (k Key) Period() (of Key, start int64, ok bool) {
	text := string(k)
	kind := strings.LastIndexByte(text, '|') + 1
	dot := strings.IndexByte(text[kind:], '.')
	if dot < 0 {
		return k, 0, false
	}
	start, err := strconv.ParseInt(text[kind+dot+1:], 10, 64)
	return k[:kind+dot], start, err == nil
}

// Stored returns the limit by which stores count: of a limit that is PerPeriod, a window that is longer than the period
// on both sides.
func (l Limit) Stored() Limit {
	if l.PerPeriod {
		l.Anchor -= periodLead
		l.Window += periodLead + PeriodKept
		l.PerPeriod = false
	}
	return l
}

// PeriodWait turns a wait until the end of the window of Stored into the wait until the period's end, at least 1 ms. It
// leaves 0 and Never as they are.
func PeriodWait(wait int64) int64 {
	if wait <= 0 {
		return wait
	}
	return max(1, wait-PeriodKept)
}
