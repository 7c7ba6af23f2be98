// Package memstore keeps buckets in this process's memory. It is the counter
// store of a single node, and what the local fail mode falls back to.
//
// Buckets are spread over 256 shards, each with its own lock; a request locks
// the shards of its keys in ascending order, decides with limiter.Decide and
// writes back what changed, so that every request is atomic. A bucket is
// created only when something is spent.
//
// Decisions use the store's clock (wall time unless Options.Clock is given).
// Forgetting uses time that never steps: a bucket is dropped by the sweeper some
// time after it stopped counting, so a stepped wall clock never makes the store
// forget early. Both keys and request records are capped; at the cap the
// soonest-expiring of a random sample of keys makes room, or the oldest record, and is counted.
//
// A worked example: a take of 1 at 12:00:00.250 from a fixed window of 3 in
// 1000 ms creates a bucket that stops counting at 12:00:01.000. It is kept for
// 750 ms and as much again (at most a minute more), in case an edit lengthens
// the window, and is gone from memory one round of the sweeper (13 s) later.
package memstore
