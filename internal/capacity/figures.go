package capacity

// Figures are what one check costs, as measured. Every number of a plan comes
// from here; docs/capacity.md quotes them.
type Figures struct {
	// NodeMicros is the processor time of a node for a check with one rule,
	// RuleMicros that of each further rule, µs. BatchMicros is that of a check
	// in a batch of a hundred.
	NodeMicros, RuleMicros, BatchMicros float64
	// RedisMicros is the processor time of Redis for one limit while many checks
	// share a script call, µs; KeyBytes is the memory of one bucket, with the
	// key, in bytes. Both by algorithm.
	RedisMicros, KeyBytes map[string]float64
}

// Measured are the figures of docs/benchmarks.md: two shared cores of an Intel
// Xeon, Go 1.26, Redis 7.0, 64 connections, server and client on the same
// machine. NodeMicros to BatchMicros are the server's column of `make bench`;
// RedisMicros and KeyBytes are the table of the Redis store. Other machines
// differ: measure yours with `make bench` and compare.
var Measured = Figures{
	NodeMicros: 23, RuleMicros: 2.5, BatchMicros: 4,
	RedisMicros: map[string]float64{
		"fixed_window": 6.2, "sliding_window_counter": 6.0, "token_bucket": 6.0, "gcra": 6.0, "leaky_bucket": 6.0, "leaky_queue": 6.0,
		"sliding_window_buckets": 10.4, "sliding_window_log": 11.8, "concurrency": 13.4,
	},
	KeyBytes: map[string]float64{
		"fixed_window": 135, "sliding_window_counter": 151, "token_bucket": 151, "gcra": 151, "leaky_bucket": 151, "leaky_queue": 151,
		"sliding_window_buckets": 168, "sliding_window_log": 792, "concurrency": 167,
	},
}
