package records

import "sync"

const (
	// QuietRate is the number of allowed requests per second up to which a log with Options.WholeWhileQuiet has all of
	// them, on average over a minute.
	QuietRate = 50
	// quietSeconds is how long the minute is, and quietMost how many allowed requests it may have.
	quietSeconds = 60
	quietMost    = QuietRate * quietSeconds
)

// quiet counts the allowed requests of the last minute. It is safe for concurrent use.
type quiet struct {
	mu      sync.Mutex
	seconds [quietSeconds]int64 // by second
	last    int64               // the second that was counted last
	sum     int64
}

// now reports whether the minute before ms since the epoch had few enough allowed requests. It counts another one if
// allowed is true.
func (q *quiet) now(ms int64, allowed bool) bool {
	second := ms / 1000
	q.mu.Lock()
	defer q.mu.Unlock()
	for from := max(q.last, second-quietSeconds); from < second; from++ {
		at := &q.seconds[(from+1)%quietSeconds]
		q.sum -= *at
		*at = 0
	}
	q.last = max(q.last, second)
	if allowed {
		q.seconds[q.last%quietSeconds]++
		q.sum++
	}
	return q.sum <= quietMost
}
