// Package redisstore keeps buckets in Redis 7 or newer and decides requests
// there, in one Lua script, exactly as package limiter does.
//
// Package script holds that script and the wire; its batch.lua is the page to
// read first.
//
// One call of the script carries many requests. Concurrent calls of [Store.Do]
// are gathered while an earlier round trip is under way, never by waiting
// (dispatcher.go):
//
//	t=0.00 ms  A arrives, nothing is under way      script call 1: A
//	t=0.05 ms  B arrives, another call may start    script call 2: B
//	t=0.10 ms  C, D and E arrive                    they queue
//	t=0.20 ms  call 1 returns                       script call 3: C, D, E
//
// Each request is atomic in itself and decided in order of arrival within a
// call. One that meets a foreign value at its key fails alone and writes
// nothing.
//
// All keys that the script touches are declared. On a cluster one call serves one hash slot. The code that only a
// cluster needs is in cluster_*.go, and the Store enters there through cluster (cluster_store.go). A request whose
// limits name several entities (see [limiter.Key.Tag]) is all or nothing: it is decided in rounds, as package across
// describes (cluster_across.go).
package redisstore
