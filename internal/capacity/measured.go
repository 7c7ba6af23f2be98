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
	// LogBytes is the memory of a log without entries, EntryBytes that of an
	// entry: a line through the measured 624 bytes of 100 entries and 2,736 of 500.
	LogBytes, EntryBytes float64
}

// Measured are the figures of docs/benchmarks.md: two shared cores of an Intel
// Xeon, Go 1.26, Redis 7.0, 64 connections, server and client on the same
// machine. NodeMicros to BatchMicros are the server's column of `make bench`;
// RedisMicros and KeyBytes are the tables of the Redis store: full script calls on
// a core of its own, names of up to 14 bytes, full sub-windows and a hundred
// entries of a log. Other machines differ: measure yours with `make bench` and compare.
var Measured = Figures{
	NodeMicros: 30, RuleMicros: 2.5, BatchMicros: 4.7, LogBytes: 96, EntryBytes: 5.28,
	RedisMicros: map[string]float64{
		"fixed_window": 3.5, "sliding_window_counter": 3.3, "token_bucket": 3.4, "gcra": 3.4, "leaky_bucket": 3.4,
		"leaky_queue":            3.5,
		"sliding_window_buckets": 4.4, "sliding_window_log": 12.1, "concurrency": 13.2,
	},
	KeyBytes: map[string]float64{
		"fixed_window": 113, "sliding_window_counter": 129, "token_bucket": 129, "gcra": 129, "leaky_bucket": 129,
		"leaky_queue":            129,
		"sliding_window_buckets": 192, "sliding_window_log": 624, "concurrency": 161,
	},
}
