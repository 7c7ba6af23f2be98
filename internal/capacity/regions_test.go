package capacity_test

import (
	"math"
	"strings"
	"testing"

	"sluice/internal/capacity"
)

// costs are figures of regions that are easy to reckon with, and so is load.
var (
	costs = capacity.Figures{
		NodeMicros: 20, RedisMicros: map[string]float64{"gcra": 5, "concurrency": 5},
		KeyBytes: map[string]float64{"gcra": 100, "concurrency": 100},
		Regions: capacity.RegionFigures{
			GlobalTake: 2, TellRedis: 10, TellNode: 2, HearNode: 3, HearRedis: map[string]float64{"gcra": 20},
			SumsBytes:  map[string]capacity.SumsBytes{"gcra": {Own: 50, First: 200, Further: 100}},
			BucketWire: 10, MessageWire: 500, CallWire: 100, LendMS: 13_000,
			CallNode: 8, MessageNode: 100, NamedRedis: 7, RecordBytes: 200,
		},
	}
	load = capacity.Load{PerSecond: 60_000, Keys: 1_000_000, Rules: 1, Algorithm: "gcra"}
)

// figure is one number of a plan.
type figure struct {
	what      string
	got, want float64
}

func compare(t *testing.T, figures []figure) {
	t.Helper()
	for _, f := range figures {
		if math.Abs(f.got-f.want) > 1e-6 {
			t.Errorf("%s = %g, want %g", f.what, f.got, f.want)
		}
	}
}

// planned is the plan of load for three regions: 20,000 checks a second in each, 30,000 when one is lost.
func planned(t *testing.T, span string, edit func(*capacity.Regions)) (capacity.Plan, *capacity.RegionPlan) {
	t.Helper()
	l := load
	l.Regions = spread(span, edit)
	p, err := costs.Make(l, capacity.Sizing{Busy: 0.5, NodeCores: 1, Overhead: 1, NodePrice: 1, ShardPrice: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p, p.Regions
}

func TestMake_ARegionCarriesItsPartWhenOneIsLost(t *testing.T) {
	p, r := planned(t, capacity.SpanRegion, func(*capacity.Regions) {})
	compare(t, []figure{
		{"checks", r.PerSecond, 20_000}, {"checks with one lost", r.LeftPerSecond, 30_000},
		{"busy cores", p.BusyCores, 0.6},    // 30,000 · 20 µs
		{"nodes", float64(p.Nodes), 3},      // ceil(0.6 / 0.5) + 1
		{"busy shards", p.BusyShards, 0.15}, // 30,000 · 5 µs
		{"memory", p.Memory, 500_000 * 100}, // the keys of one lost region are in two
		{"hours of nodes", p.NodeHours, 730 * 9}, {"hours of shards", p.ShardHours, 730 * 6},
		{"cost", p.Cost, 730 * 15}, {"connections", float64(r.Connections), 0}, {"bytes", r.Bytes, 0},
	})
}

func TestMake_SpanGlobalAddsTheExchange(t *testing.T) {
	p, r := planned(t, capacity.SpanGlobal, func(r *capacity.Regions) { r.KeyPerSecond, r.Limit = 3000, 1000 })
	compare(t, []figure{
		{"told", r.Work[0].PerSecond, 30_000}, {"heard", r.Work[1].PerSecond, 40_000},
		{"busy cores", p.BusyCores, 0.6 + 0.06 + 0.12},
		{"busy shards", p.BusyShards, 0.3 + 0.3 + 0.8},
		{"memory", p.Memory, 1_000_000 * (100 + 50 + 200 + 100)}, // each region has all keys
		{"nodes", float64(p.Nodes), 3},                           // ceil(0.78 / 0.5) + 1
		{"messages", r.Messages, 15},                             // 3 nodes, five times a second
		{"bytes", r.Bytes, 30_000*10 + 15*500},
		{"over ms", r.OverMS, 280 * 2.0 / 3}, {"over", r.OverUnits, 560}, {"over percent", r.OverPercent, 56},
		{"connections", float64(r.Connections), 16},
	})
}

func TestMake_NoMoreBucketsChangeThanThereAre(t *testing.T) {
	l := load
	l.Keys, l.Regions = 100, spread(capacity.SpanGlobal, func(*capacity.Regions) {})
	p, err := costs.Make(l, capacity.Sizing{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, []figure{
		{"told", p.Regions.Work[0].PerSecond, 500}, {"heard", p.Regions.Work[1].PerSecond, 1000},
		{"over units without a rate", p.Regions.OverUnits, 0},
	})
}

func TestMake_NodesSufficeToTellOfWhatChanges(t *testing.T) {
	l := load
	l.PerSecond, l.Keys, l.Regions = 1_200_000, 0, spread(capacity.SpanGlobal, func(*capacity.Regions) {})
	p, err := costs.Make(l, capacity.Sizing{NodeCores: 256})
	if err != nil {
		t.Fatal(err)
	}
	// 600,000 a second are 120,000 an interval.
	compare(t, []figure{{"nodes that tell", float64(p.Regions.LeastNodes), 12}, {"nodes", float64(p.Nodes), 13}})
}

func TestMake_SpanLocalThenGlobalSaysHowLongLendingTakes(t *testing.T) {
	p, r := planned(t, capacity.SpanShares, func(r *capacity.Regions) { r.WindowMS = 3_600_000 })
	compare(t, []figure{
		{"lend ms", r.LendMS, 3*60_000 + 13_000 + 3*3_600_000 + 1}, // gcra: share.Life
		{"messages", r.Messages, 1.0 / 60}, {"memory", p.Memory, 500_000 * 100}, {"connections", float64(r.Connections), 16},
	})
}

func TestMake_SpanGlobalExactAddsCallsAndTheirRecords(t *testing.T) {
	p, r := planned(t, capacity.SpanExact, func(r *capacity.Regions) { r.DelayMS = 160 })
	compare(t, []figure{
		{"round trip", r.RoundTripMS, 320}, {"away", r.Away, 2.0 / 3}, {"calls", r.Work[0].PerSecond, 20_000},
		{"messages", r.Messages, 300}, // 3 nodes, 32 under way for 320 ms each
		{"busy cores", p.BusyCores, 0.6 + 0.16 + 0.06}, {"busy shards", p.BusyShards, 0.15 + 0.14},
		{"records", r.RecordBytes, 20_000 * 60 * 200}, {"memory", p.Memory, 500_000*100 + 20_000*60*200},
		{"bytes", r.Bytes, 10_000*100 + 300*500}, {"connections", float64(r.Connections), 80},
	})
	_, r = planned(t, capacity.SpanExact, func(r *capacity.Regions) { r.WindowMS = 86_400_000 })
	compare(t, []figure{{"a record of a day's window is kept for ms", float64(r.RecordMS), 120_000}})
}

func TestMake_RefusesRegionsThatAreOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		name, algorithm, want string
		edit                  func(*capacity.Regions)
	}{
		{"one region", "gcra", "regions", func(r *capacity.Regions) { r.Count = 1 }},
		{"too many", "gcra", "regions", func(r *capacity.Regions) { r.Count = 51 }},
		{"no such span", "gcra", `"moon"`, func(r *capacity.Regions) { r.Span = "moon" }},
		{"no delay", "gcra", "delay", func(r *capacity.Regions) { r.DelayMS = 0 }},
		{"no window", "gcra", "window", func(r *capacity.Regions) { r.WindowMS = 0 }},
		{"a short window", "gcra", "window", func(r *capacity.Regions) { r.WindowMS = 9_999 }},
		{"a negative limit", "gcra", "limit", func(r *capacity.Regions) { r.Limit = -1 }},
		{"not a rate", "gcra", "a key", func(r *capacity.Regions) { r.KeyPerSecond = math.NaN() }},
		{"slots are no units", "concurrency", "global for concurrency", func(*capacity.Regions) {}},
		{"slots are not lent", "concurrency", "local_then_global for concurrency",
			func(r *capacity.Regions) { r.Span = capacity.SpanShares }},
	} {
		l := load
		l.Algorithm, l.Regions = tt.algorithm, spread(capacity.SpanGlobal, tt.edit)
		if _, err := costs.Make(l, capacity.Sizing{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}
