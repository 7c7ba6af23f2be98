package capacity

import (
	"fmt"
	"math"

	"sluice/internal/region/share"
	"sluice/limiter"
)

// How far the limit of the rules reaches; see docs/regions.md.
const (
	SpanRegion = "region"
	SpanGlobal = "global"
	SpanShares = "local_then_global"
	SpanExact  = "global_exact"
)

// Regions is how a load is spread over regions. Its checks and keys are divided evenly.
type Regions struct {
	// Count is how many there are, 2 to MaxRegions. Span is how far the limit of the rules reaches.
	Count int
	Span  string
	// DelayMS is the time from one region to another one way, 1 to 5,000 ms.
	DelayMS float64
	// WindowMS is the window of the rules, 1 ms to 400 days, Limit their limit, 0 to 2^53; 0 if it is unknown.
	WindowMS, Limit int64
	// KeyPerSecond is the demand for the busiest key in all regions together, units per second, 0 to 1e9; 0 if it is
	// unknown.
	KeyPerSecond float64
}

// RegionPlan is the part of a plan about regions. The plan's nodes, shards and memory are for each region: enough for
// its part of the load when one region is lost. Its hours and costs are for all regions.
type RegionPlan struct {
	// PerSecond are the checks of each region, LeftPerSecond those when one is lost. Keys are the buckets that its Redis
	// has then.
	PerSecond     float64 `json:"checks_per_second"`
	LeftPerSecond float64 `json:"checks_per_second_one_lost"`
	Keys          float64 `json:"keys"`
	// Work is what the exchange with other regions adds to the checks of a region, at most.
	Work []Work `json:"work,omitempty"`
	// LeastNodes is the number of nodes of a region that can send that many buckets, without a spare one.
	LeastNodes int `json:"least_nodes,omitempty"`
	// Bytes and Messages go from one region to each other one, a second, with the answers, at most. Connections are those
	// of a node to all other regions, if each has one address.
	Bytes       float64 `json:"bytes_per_second_to_each,omitempty"`
	Messages    float64 `json:"messages_per_second_to_each,omitempty"`
	Connections int     `json:"connections_per_node,omitempty"`
	// OverMS bounds the units that span global admits beyond the limit of a key: the demand for the key in that time.
	// OverUnits and OverPercent are that number, and its part of the limit, if the load states them.
	OverMS      float64 `json:"over_ms,omitempty"`
	OverUnits   float64 `json:"over_units,omitempty"`
	OverPercent float64 `json:"over_percent,omitempty"`
	// LendMS is how long it takes at most, with span local_then_global, until a region has what others do not need.
	LendMS float64 `json:"lend_ms,omitempty"`
	// RoundTripMS is what span global_exact adds to a check whose key is at home elsewhere, Away the part of such checks.
	// RecordBytes are the records of their takes in a region's Redis, each kept for RecordMS.
	RoundTripMS float64 `json:"round_trip_ms,omitempty"`
	Away        float64 `json:"away,omitempty"`
	RecordBytes float64 `json:"record_bytes,omitempty"`
	RecordMS    int64   `json:"record_ms,omitempty"`

	costs *RegionFigures
}

// Work is work of a region in addition to its checks.
type Work struct {
	What      string  `json:"what"`
	PerSecond float64 `json:"per_second"`
	// Micros and RedisMicros are the processor time of one on a node and in Redis, µs.
	Micros      float64 `json:"node_us"`
	RedisMicros float64 `json:"redis_us"`
}

// check returns what is out of range. The algorithm exists.
func (r *Regions) check(algorithm string) error {
	for _, err := range []error{
		between("regions", float64(r.Count), 2, MaxRegions),
		between("region delay in ms", r.DelayMS, 1, 5000),
		between("window in ms", float64(r.WindowMS), 1, float64(limiter.MaxWindow)),
		between("limit", float64(r.Limit), 0, float64(limiter.MaxExact)),
		between("checks per second of a key", r.KeyPerSecond, 0, 1e9),
	} {
		if err != nil {
			return err
		}
	}
	a, err := limiter.ParseAlgorithm(algorithm)
	if err != nil {
		return err
	}
	switch t := a.Traits(); {
	case r.Span != SpanRegion && r.Span != SpanGlobal && r.Span != SpanShares && r.Span != SpanExact:
		return fmt.Errorf("span must be %s, %s, %s or %s, not %q", SpanRegion, SpanGlobal, SpanShares, SpanExact, r.Span)
	case r.Span == SpanGlobal && !t.Spans() || r.Span == SpanShares && t.Slots:
		return fmt.Errorf("span must not be %s for %s", r.Span, algorithm)
	case r.Span == SpanGlobal && r.WindowMS < MinGlobalWindow:
		return fmt.Errorf("window must be at least %d ms with span %s", MinGlobalWindow, SpanGlobal)
	}
	return nil
}

const (
	// MaxRegions is the largest number of regions.
	MaxRegions = 50
	// MinGlobalWindow is the shortest window of span global, ms, as the rules have it.
	MinGlobalWindow = 10_000
	// RegionInterval is how often a region of the server sends the others what it has spent, ms.
	RegionInterval = 200
	// ShareInterval is how often regions compare their demand and lend each other shares, ms.
	ShareInterval = 60_000
)

// plan works out what regions add for a load whose algorithm exists.
func (r *Regions) plan(f *RegionFigures, l *Load, nodeMicros float64, s *Sizing) *RegionPlan {
	n, others := float64(r.Count), float64(r.Count-1)
	p := &RegionPlan{PerSecond: l.PerSecond / n, LeftPerSecond: l.PerSecond / others, Keys: l.Keys / others,
		costs: f}
	nodes := math.Ceil(p.LeftPerSecond*nodeMicros/1e6/s.Busy/float64(s.NodeCores)) + 1
	a, _ := limiter.ParseAlgorithm(l.Algorithm) // check has parsed it
	limit := limiter.Limit{Algorithm: a, Count: max(r.Limit, 1), Burst: max(r.Limit, 1), Window: r.WindowMS}
	switch r.Span {
	case SpanGlobal:
		p.Keys = l.Keys
		told, heard := r.changes(p.LeftPerSecond, l), others*r.changes(p.PerSecond, l)
		p.Work = []Work{
			{"buckets told", told, f.TellNode, f.TellRedis}, {"buckets heard", heard, f.HearNode, f.HearRedis[l.Algorithm]},
		}
		p.LeastNodes = int(math.Ceil(told * RegionInterval / 1000 / ExportMost))
		p.Messages = max(nodes, float64(p.LeastNodes)) * 1000 / RegionInterval
		p.Bytes = told*f.BucketWire + p.Messages*f.MessageWire
		p.Connections = (r.Count - 1) * ExchangeConnections
		p.OverMS = (r.DelayMS + RegionInterval) * others / n
		p.OverUnits = r.KeyPerSecond * p.OverMS / 1000
		if r.Limit > 0 {
			p.OverPercent = 100 * p.OverUnits / float64(r.Limit)
		}
	case SpanShares:
		p.Messages = 1000.0 / ShareInterval
		p.Connections = (r.Count - 1) * ExchangeConnections
		p.LendMS = 3*ShareInterval + f.LendMS + float64(share.Life(limit))
	case SpanExact:
		p.Away, p.RoundTripMS = others/n, 2*r.DelayMS
		calls := p.LeftPerSecond * p.Away
		p.Messages = min(calls/others, nodes*HomeConnections*1000/p.RoundTripMS)
		p.Work = []Work{
			{"calls answered", calls, f.CallNode, f.NamedRedis}, {"messages", others * p.Messages, f.MessageNode, 0},
		}
		p.Bytes = calls/others*f.CallWire + p.Messages*f.MessageWire
		p.Connections = (r.Count - 1) * (ExchangeConnections + HomeConnections)
		needed := r.WindowMS
		if a.Traits().Decay == limiter.DecaySliding {
			needed *= 2
		}
		p.RecordMS = (&limiter.Request{Brief: true}).RecordTTL(needed)
		p.RecordBytes = calls * float64(p.RecordMS) / 1000 * f.RecordBytes * s.Overhead
	}
	return p
}

// changes is the number of buckets per second that a region must send if every check changes another one, up to the
// number of keys.
func (r *Regions) changes(perSecond float64, l *Load) float64 {
	n := perSecond * float64(l.Rules)
	if l.Keys > 0 {
		n = min(n, l.Keys*1000/RegionInterval)
	}
	return n
}
