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
	// Regions are the costs of what regions exchange.
	Regions RegionFigures
}

// RegionFigures are what it costs that limits span regions. CPU times are µs.
type RegionFigures struct {
	// GlobalTake is how many times as long Redis takes for a limit with span global as for one of a region, in full calls.
	GlobalTake float64
	// TellRedis and TellNode are the times of Redis and of a node for a bucket that the other regions are told of, all of
	// them together, HearRedis (by algorithm) and HearNode those for a bucket that is heard of from one of them.
	TellRedis, TellNode, HearNode float64
	HearRedis                     map[string]float64
	// SumsBytes is what a bucket takes in addition, by algorithm.
	SumsBytes map[string]SumsBytes
	// BucketWire is a bucket in a message, compressed, MessageWire a message without buckets or calls and the answer to
	// it, with the headers of HTTP, and CallWire a call of span global_exact and its answer; bytes.
	BucketWire, MessageWire, CallWire float64
	// LendMS is how long a part of a limit waits before it is lent, beside the time for which spent units count.
	LendMS float64
	// CallNode and MessageNode are the times of nodes for a call of span global_exact and for a message, those of the
	// region that asks and of the one that answers together. NamedRedis is how much longer Redis takes for a take with
	// an id. RecordBytes is the memory of what it leaves.
	CallNode, MessageNode, NamedRedis, RecordBytes float64
}

// SumsBytes is the memory of the sums of a bucket with span global, bytes: its own, those of the first region that it
// has heard of, and of each further one.
type SumsBytes struct{ Own, First, Further float64 }

// of is what a bucket takes in addition if all of some regions spend in it.
func (b SumsBytes) of(regions int) float64 { return b.Own + b.First + float64(regions-2)*b.Further }

// What a node does at most; the constants of the code have the same values.
const (
	// ExportMost is how many buckets a node tells of in an interval.
	ExportMost = 10_000
	// ExchangeConnections are the connections of a node to an address of another region, for messages.
	ExchangeConnections = 8
	// HomeConnections are those for calls of span global_exact. A message of calls takes one until it is answered.
	HomeConnections = 32
)

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
	Regions: RegionFigures{
		GlobalTake: 1.18, TellRedis: 8, TellNode: 5, HearNode: 5,
		HearRedis: map[string]float64{
			"fixed_window": 16, "sliding_window_counter": 16, "token_bucket": 16, "gcra": 16, "leaky_bucket": 16,
			"sliding_window_buckets": 18, "sliding_window_log": 35,
		},
		SumsBytes: map[string]SumsBytes{
			"fixed_window": {79, 192, 80}, "sliding_window_counter": {47, 192, 80}, "token_bucket": {47, 192, 80},
			"gcra": {47, 192, 80}, "leaky_bucket": {47, 192, 80}, "sliding_window_log": {176, 192, 80},
			"sliding_window_buckets": {176, 440, 240},
		},
		BucketWire: 18, MessageWire: 600, CallWire: 92, LendMS: 13_000,
		CallNode: 8, MessageNode: 150, NamedRedis: 7.4, RecordBytes: 215,
	},
}
