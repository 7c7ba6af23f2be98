// Package memstore keeps buckets in the memory of this process. It is the counter
// store of a single node, and the fallback of the fail mode local.
//
// Buckets are spread over 256 shards, each with its own lock. A request locks the
// shards of its keys in ascending order, decides with limiter.Decide and writes
// back what changed, so every request is atomic. A bucket is created only when
// something is spent.
//
// Decisions use the clock of the store (wall time unless Options.Clock is set).
// Expiry uses a monotonic clock: the sweeper drops a bucket some time after it
// stopped counting, so a step of the wall clock never drops it early. The numbers
// of keys and records are limited. At the limit the store evicts the key of a
// random sample that expires first, or the oldest record, and counts that.
//
// A worked example: a take of 1 at 12:00:00.250 from a fixed window of 3 in
// 1000 ms creates a bucket that counts until 12:00:01.000. It is kept for 750 ms
// and as long again (at most a minute more), in case an edit lengthens the window.
// The sweeper removes it within its next round (13 s).
package memstore
