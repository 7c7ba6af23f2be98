// Package limiter decides whether a request fits its limits.
//
// It holds the words every other package uses (Limit, Decision, Key), the pure
// arithmetic of each algorithm, and Store, the seam behind which buckets live.
// Nothing here reads a clock, does I/O or starts a goroutine: a decision is a
// function of limit, state, time and weight. The stores in redisstore and
// memstore wrap that function; storetest proves that they agree.
//
// A worked example, a token bucket of 10 units per second with a burst of 10:
//
//	t=0 ms    take 10  level 0 -> 10    allowed, remaining 0, reset 1000 ms
//	t=0 ms    take 1   level 10         denied,  retry after 100 ms
//	t=99 ms   take 1   level 9.01       denied,  retry after 1 ms
//	t=100 ms  take 1   level 9 -> 10    allowed, remaining 0, reset 1000 ms
//
// The level is the number of units that were consumed and have not yet drained. It is kept as an integer scaled by the
// window (9.01 units of a 1000 ms window are 9010), so that no comparison is ever made on a rounded number.
package limiter
