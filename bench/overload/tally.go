package main

import (
	"math"
	"slices"
	"time"
)

// verdict is how a check was answered.
type verdict uint8

const (
	decided    verdict = iota // by the limit
	byFailMode                // degraded
	overloaded                // denied because the node had no turn for it
	failed                    // no answer to a check: another status, or the connection ended
)

// answer is what became of one check. Times count from the start of the load.
type answer struct {
	n       int           // the number of the request
	planned time.Duration // when it was due; in a closed loop the same as sent
	sent    time.Duration
	verdict verdict
	allowed bool
	mode    string // the fail mode that decided
}

// storeTimeout is the default of SLUICE_STORE_TIMEOUT. A check decided later counts as late for the capacity.
const storeTimeout = 25 * time.Millisecond

// tally adds up the answers of one load.
type tally struct {
	begin    time.Time
	length   time.Duration // how long checks were sent
	sent     int
	unplaced int    // checks of an open loop that found no free connection; they were not sent
	verdicts [4]int // answers by verdict
	inTime   int    // checks that were decided within the store timeout
	during   int    // checks that were decided before the load ended
	wrong    int    // answers that are not what the case expects
	took     []time.Duration
	lag      []time.Duration // how late an open loop sent, which is the generator's own lack of CPU
	// lastFailMode is when the last answer by a fail mode arrived.
	lastFailMode time.Duration
}

// add counts an answer that arrived at the given time. right is nil if every answer is as expected.
func (t *tally) add(a *answer, now time.Duration, right func(*answer) bool, fromSending bool) {
	from := a.planned
	if fromSending {
		from = a.sent
	}
	took := now - from
	t.verdicts[a.verdict]++
	if a.verdict != failed {
		t.took = append(t.took, took)
	}
	switch a.verdict {
	case decided:
		if took <= storeTimeout {
			t.inTime++
		}
		if now <= t.length {
			t.during++
		}
	case byFailMode:
		t.lastFailMode = now
	}
	if right != nil && !right(a) {
		t.wrong++
	}
}

// answered is the number of checks that have an answer.
func (t *tally) answered() int {
	return t.verdicts[decided] + t.verdicts[byFailMode] + t.verdicts[overloaded]
}

// unanswered is the number of checks that were sent and have none.
func (t *tally) unanswered() int { return t.sent - t.answered() }

// share is the part of the answers with a verdict.
func (t *tally) share(v verdict) float64 {
	return float64(t.verdicts[v]) / float64(max(1, t.answered()))
}

// rate is the number of decided checks per second during the load.
func (t *tally) rate() float64 { return float64(t.during) / t.length.Seconds() }

// late is the number of answers that took longer than limit.
func (t *tally) late(limit time.Duration) (n int) {
	for _, d := range t.took {
		if d > limit {
			n++
		}
	}
	return n
}

// quantile is the smallest value that at least the part q of all values do not exceed, 0 without values. It sorts them.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}
