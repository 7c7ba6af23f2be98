// Package capacity works out what a load needs: nodes, Redis shards, memory and money, from what one check costs. It is
// arithmetic on measured figures and does not depend on the machine that it runs on.
//
// A worked example: 50,000 checks per second with one rule each. A node spends 23 µs on a check, so the fleet uses
// 50,000 × 23 µs = 1.15 cores; at 60 % that is 1.92 cores, so two cores, one node of 4 cores and one to spare. Redis
// spends 6 µs on a limit: 50,000 × 6 µs = 0.3 of its one thread; at 60 % that is half a shard, so one, with its
// replica.
package capacity

import (
	"fmt"
	"math"
	"slices"
)

// Load is what is to be served.
type Load struct {
	// PerSecond is the peak in checks per second; 1 to 1e9.
	PerSecond float64
	// Keys is how many buckets are alive at once, of all rules together; 0 to 1e12.
	Keys float64
	// Rules is how many limits apply to a check, 1 to 100. Algorithm is theirs.
	Rules     int
	Algorithm string
	// Entries is how many a log of sliding_window_log has, 0 to 1,000,000.
	// nil means 100; it is nil for the others.
	Entries *int64 `json:",omitempty"`
	// Batch: checks come in batches of about a hundred.
	Batch bool
	// Regions is how it is spread over regions; nil for one region.
	Regions *Regions `json:",omitempty"`
}

// Sizing is how generously, on what. Zero fields take the defaults.
type Sizing struct {
	// Busy is how busy processors may be at the peak, 0.05 to 1; 0 means 0.6.
	Busy float64
	// NodeCores is how many cores a node has; 0 means 4.
	NodeCores int
	// ShardBytes is how much memory a Redis shard may use; 0 means 12 GiB, three
	// quarters of a server of 16. Overhead is what fragmentation, copy-on-write
	// and connections add, as a factor; 0 means 1.3.
	ShardBytes, Overhead float64
	// NodePrice and ShardPrice are what a node and a Redis server cost an hour.
	NodePrice, ShardPrice float64
}

// Defaults of a Sizing.
const (
	DefaultBusy       = 0.6
	DefaultNodeCores  = 4
	DefaultShardBytes = 12 << 30
	DefaultOverhead   = 1.3
	// HoursAMonth is a year of hours over twelve.
	HoursAMonth = 730
)

// Plan is what a load needs.
type Plan struct {
	Load   Load   `json:"load"`
	Sizing Sizing `json:"sizing"`
	// Micros and RedisMicros are the processor time of a check on a node and in
	// Redis, µs.
	Micros      float64 `json:"node_us_per_check"`
	RedisMicros float64 `json:"redis_us_per_check"`
	// BusyCores is what the nodes use at the peak, Cores what they should have.
	BusyCores float64 `json:"busy_cores"`
	Cores     float64 `json:"cores"`
	// Nodes is with one to spare, so that one may fail or restart at the peak.
	Nodes int `json:"nodes"`
	// BusyShards is the CPU that Redis uses at the peak, in threads. ShardsForLoad and ShardsForMemory are the shards
	// that load and memory need; Shards is the larger number, and each shard has a replica, so there are twice as many
	// RedisServers.
	BusyShards      float64 `json:"busy_shards"`
	ShardsForLoad   int     `json:"shards_for_load"`
	ShardsForMemory int     `json:"shards_for_memory"`
	Shards          int     `json:"shards"`
	RedisServers    int     `json:"redis_servers"`
	// KeyBytes is one bucket, Memory all of them with the overhead, bytes, without
	// replicas.
	KeyBytes float64 `json:"key_bytes"`
	Memory   float64 `json:"memory_bytes"`
	// NodeHours and ShardHours are a month's; Cost is theirs together.
	NodeHours  float64 `json:"node_hours"`
	ShardHours float64 `json:"redis_hours"`
	Cost       float64 `json:"cost_per_month"`
	// Regions is nil for one region.
	Regions *RegionPlan `json:"regions,omitempty"`
	// CallChecks is how many checks share a script call in RedisMicros, 0 if unknown.
	CallChecks int `json:"checks_per_call,omitempty"`
	// Few is the plan for the same load over few busy connections to each node, Connections of them. It is nil for
	// batches, which fill script calls anyway.
	Few         *Plan `json:"few_gateways,omitempty"`
	Connections int   `json:"connections,omitempty"`
}

// Algorithms are the names that figures exist for, in order.
func (f *Figures) Algorithms() []string {
	names := make([]string, 0, len(f.KeyBytes))
	for name := range f.KeyBytes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Make works a plan out. The error names what is out of range.
func (f *Figures) Make(l Load, s Sizing) (Plan, error) {
	s = s.withDefaults()
	if err := f.check(&l, &s); err != nil {
		return Plan{}, err
	}
	further, redis := float64(l.Rules-1)*f.RuleMicros, float64(l.Rules)*f.RedisMicros[l.Algorithm]
	node := f.NodeMicros
	if l.Batch {
		node = f.BatchMicros
	}
	p := f.plan(&l, &s, node+further, redis)
	p.CallChecks = f.CallChecks
	if few := f.Few; few != nil && !l.Batch {
		other := f.plan(&l, &s, few.NodeMicros+further,
			redis+few.RedisMicros+float64(l.Rules-1)*few.RuleRedisMicros)
		other.Connections = few.Connections
		p.Few = &other
	}
	return p, nil
}

// plan works out a plan from the cost of a check for a node and for Redis, µs.
func (f *Figures) plan(l *Load, s *Sizing, micros, redisMicros float64) Plan {
	p := Plan{Load: *l, Sizing: *s, Micros: micros, RedisMicros: redisMicros}
	p.KeyBytes = f.KeyBytes[l.Algorithm]
	if l.Algorithm == logAlgorithm {
		p.KeyBytes = f.LogBytes + float64(*l.Entries)*f.EntryBytes
	}
	perSecond, keys, regions := l.PerSecond, l.Keys, 1
	if r := l.Regions; r != nil {
		p.Regions = r.plan(&f.Regions, l, p.Micros, s)
		perSecond, keys, regions = p.Regions.LeftPerSecond, p.Regions.Keys, r.Count
		if r.Span == SpanGlobal {
			p.RedisMicros *= f.Regions.GlobalTake
			p.KeyBytes += f.Regions.SumsBytes[l.Algorithm].of(r.Count)
		}
		for _, w := range p.Regions.Work {
			p.BusyCores += w.PerSecond * w.Micros / 1e6
			p.BusyShards += w.PerSecond * w.RedisMicros / 1e6
		}
	}
	p.BusyCores += perSecond * p.Micros / 1e6
	p.Cores = p.BusyCores / s.Busy
	p.Nodes = int(math.Ceil(p.Cores/float64(s.NodeCores))) + 1
	if p.Regions != nil {
		p.Nodes = max(p.Nodes, p.Regions.LeastNodes+1)
	}
	p.BusyShards += perSecond * p.RedisMicros / 1e6
	p.ShardsForLoad = int(math.Ceil(p.BusyShards / s.Busy))
	p.Memory = keys * p.KeyBytes * s.Overhead
	if p.Regions != nil {
		p.Memory += p.Regions.RecordBytes
	}
	p.ShardsForMemory = int(math.Ceil(p.Memory / s.ShardBytes))
	p.Shards = max(p.ShardsForLoad, p.ShardsForMemory, 1)
	p.RedisServers = 2 * p.Shards

	p.NodeHours = float64(regions*p.Nodes) * HoursAMonth
	p.ShardHours = float64(regions*p.RedisServers) * HoursAMonth
	p.Cost = p.NodeHours*s.NodePrice + p.ShardHours*s.ShardPrice
	return p
}

func (s Sizing) withDefaults() Sizing {
	if s.Busy == 0 {
		s.Busy = DefaultBusy
	}
	if s.NodeCores == 0 {
		s.NodeCores = DefaultNodeCores
	}
	if s.ShardBytes == 0 {
		s.ShardBytes = DefaultShardBytes
	}
	if s.Overhead == 0 {
		s.Overhead = DefaultOverhead
	}
	return s
}

func between(what string, v, least, most float64) error {
	if v >= least && v <= most { // false for NaN
		return nil
	}
	return fmt.Errorf("%s must be between %.10g and %.10g, not %.10g", what, least, most, v)
}

func (f *Figures) check(l *Load, s *Sizing) error {
	for _, err := range []error{
		between("checks per second", l.PerSecond, 1, 1e9),
		between("keys", l.Keys, 0, 1e12),
		between("rules per check", float64(l.Rules), 1, 100),
		between("busy", s.Busy, 0.05, 1),
		between("cores per node", float64(s.NodeCores), 1, 1024),
		between("bytes per shard", s.ShardBytes, 1<<20, 1<<50),
		between("overhead", s.Overhead, 1, 10),
		between("price of a node", s.NodePrice, 0, 1e6),
		between("price of a Redis server", s.ShardPrice, 0, 1e6),
	} {
		if err != nil {
			return err
		}
	}
	if _, ok := f.KeyBytes[l.Algorithm]; !ok {
		return fmt.Errorf("unknown algorithm %q; allowed: %v", l.Algorithm, f.Algorithms())
	}
	if l.Regions != nil {
		if err := l.Regions.check(l.Algorithm); err != nil {
			return err
		}
	}
	if l.Algorithm != logAlgorithm {
		l.Entries = nil
		return nil
	}
	if l.Entries == nil {
		l.Entries = new(int64)
		*l.Entries = defaultEntries
	}
	return between("entries per log", float64(*l.Entries), 0, 1e6)
}

// logAlgorithm is the one whose buckets grow with their limit.
const logAlgorithm = "sliding_window_log"

// defaultEntries is the number of entries of a log, unless the load states it.
const defaultEntries = 100
