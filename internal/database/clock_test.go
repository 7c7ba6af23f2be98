package database

import (
	"sync"
	"time"
)

// stepClock is a clock that moves on by 1.5 ms with every reading, so that
// truncation to milliseconds shows.
func stepClock() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 11, 21, 12, 0, 0, 123456, time.FixedZone("somewhere", 2*3600))
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(1500 * time.Microsecond)
		return now
	}
}
