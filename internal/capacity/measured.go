package capacity

// Figures are what one check costs, as measured. Every number of a plan comes
// from here; docs/capacity.md quotes them.
type Figures struct {
	// NodeMicros is the processor time of a node for a check with one rule, RuleMicros the time for each further rule,
	// µs. BatchMicros is the time for a check in a batch of a hundred.
	NodeMicros, RuleMicros, BatchMicros float64
	// RedisMicros is the processor time of Redis for one limit while CallChecks
	// checks share a script call, µs; KeyBytes is the memory of one bucket, with
	// the key, in bytes. Both by algorithm.
	CallChecks            int
	RedisMicros, KeyBytes map[string]float64
	// Few has what differs with few busy connections to a node; nil if unknown.
	Few *FewFigures
	// LogBytes is the memory of a log without entries, EntryBytes the memory of an entry: a line through the measured
	// 624 bytes of 100 entries and 2,736 of 500.
	LogBytes, EntryBytes float64
	// Regions are the costs of what regions exchange.
	Regions RegionFigures
}

// FewFigures are the costs of checks that come over few busy connections, so that few of them share a script call.
type FewFigures struct {
	// Connections is how many of a node.
	Connections int
	// NodeMicros is as in Figures.
	NodeMicros float64
	// RedisMicros is the time of Redis for a check in addition to Figures.RedisMicros of its first limit,
	// RuleRedisMicros the additional time for each further limit.
	RedisMicros, RuleRedisMicros float64
}

// RegionFigures are what it costs that limits span regions. CPU times are µs.
type RegionFigures struct {
	// GlobalTake is how many times as long Redis takes for a limit with span global as for one of a region, in full calls.
	GlobalTake float64
	// TellRedis and TellNode are the times of Redis and of a node to send a bucket to all other regions together.
	// HearRedis (by algorithm) and HearNode are the times to receive a bucket from one of them.
	TellRedis, TellNode, HearNode float64
	HearRedis                     map[string]float64
	// SumsBytes is what a bucket takes in addition, by algorithm.
	SumsBytes map[string]SumsBytes
	// BucketWire is a bucket in a message, compressed, MessageWire a message without buckets or calls and the answer to
	// it, with the headers of HTTP, and CallWire a call of span global_exact and its answer; bytes.
	BucketWire, MessageWire, CallWire float64
	// LendMS is how long a part of a limit waits before it is lent, in addition to the time for which spent units
	// count.
	LendMS float64
	// CallNode and MessageNode are the times of nodes for a call of span global_exact and for a message, in the asking
	// and the answering region together. NamedRedis is how much longer Redis needs for a take with an id. RecordBytes
	// is the memory of its record.
	CallNode, MessageNode, NamedRedis, RecordBytes float64
}

// SumsBytes is the memory of the sums of a bucket with span global, bytes: its own sums, the sums of the first other
// region, and of each further region.
type SumsBytes struct{ Own, First, Further float64 }

// of is what a bucket takes in addition if all of some regions spend in it.
func (b SumsBytes) of(regions int) float64 { return b.Own + b.First + float64(regions-2)*b.Further }

// The bounds of a node; the constants of the code have the same values.
const (
	// ExportMost is the number of buckets that a node sends in an interval.
	ExportMost = 10_000
	// ExchangeConnections are the connections of a node to an address of another region, for messages.
	ExchangeConnections = 8
	// HomeConnections is the number of connections for calls of span global_exact. A message of calls uses one until it
	// is answered.
	HomeConnections = 32
)

// Measured are the figures of docs/benchmarks.md: the figures in costs.json, which `make bench` writes with the page, a
// line through the memory of logs, and the costs of the exchange of regions (docs/capacity.md). Other machines differ:
// measure yours.
var Measured = measured(Figures{
	LogBytes: 96, EntryBytes: 5.28,
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
})
