package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/telemetry"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
)

// counters is where buckets are counted.
type counters struct {
	// store decides.
	store limiter.Store
	// local decides for fail mode local while store, in Redis, cannot, and
	// ledger keeps account of that. Both are nil without Redis.
	local  limiter.Store
	ledger *decide.Ledger
	// loads is what the fleet reports about pools.
	loads *decide.Loads
	// board is where the nodes that share these counters post their figures,
	// kind is redis or memory, and breakers tells what guards the servers.
	board    fleet.Board
	kind     string
	breakers func() []fleet.Breaker
	// hot lists this node's hot keys, nil where nobody looks for them.
	hot func(most int) []limiter.HotKey
}

// openCounters opens the counter store and what stands in for it. Without Redis
// it is in memory and kept on disk, and nothing can stand in. Redis need not
// answer yet.
func openCounters(cfg *config.Serve, host *Host, metrics *telemetry.Metrics, stops *stops) (*counters, error) {
	most := mostKeys(int(cfg.MaxKeys), memoryLimits())
	host.Log.Info("the number of in-memory counters is limited", "keys", most.keys, "because", most.because, "record_bytes", int64(cfg.MaxRecordBytes))
	memory := memstore.New(memstore.Options{MaxKeys: most.keys, MaxRecordBytes: int64(cfg.MaxRecordBytes), Clock: host.Clock})
	stops.add("memory store", func(context.Context) error { return memory.Close() })
	stops.add("memory release", task(func(ctx context.Context) {
		returnMemory(ctx, func() int64 { return int64(memory.Keys())*autoKeyBytes + memory.RecordBytes() })
	}))
	metrics.MemoryStore(memory)
	if cfg.RedisURL == "" {
		if cfg.Postgres() {
			host.Log.Warn("REDIS_URL is not set: this node counts alone, and each of several nodes allows the full limit")
		}
		keepOnDisk(cfg, memory, host.Log, metrics, stops)
		return &counters{store: memory, loads: decide.NewLoads(nil, host.Now), board: fleet.NewMemory(host.Now), kind: "memory", breakers: noBreakers}, nil
	}
	return openRedis(cfg, host, memory, metrics, stops)
}

// openRedis opens the shared counter store, with memory beside it.
func openRedis(cfg *config.Serve, host *Host, memory limiter.Store, metrics *telemetry.Metrics, stops *stops) (*counters, error) {
	quietRedis()
	client, err := redisstore.NewClient(cfg.RedisURL, redisstore.ClientOptions{})
	if err != nil {
		return nil, err // names REDIS_URL, never its password
	}
	stops.add("Redis client", func(context.Context) error { return client.Close() })
	breakers := &breakerLog{log: host.Log, now: host.Now}
	store, err := redisstore.New(redisstore.Options{
		Client: client, Prefix: cfg.KeyPrefix, PlainKeys: cfg.PlainKeys, Clock: host.Clock, OnBreaker: breakers.changed, ProbeLimit: cfg.StoreTimeout,
	})
	if err != nil {
		return nil, err
	}
	stops.add("Redis store", func(context.Context) error { return store.Close() })
	nodes := nodeCount{path: cfg.NodesFile(), log: host.Log}
	presence, err := fleet.NewPresence(fleet.PresenceOptions{Client: client, Prefix: cfg.KeyPrefix, Now: time.Now, Known: nodes.load(), Counted: nodes.save})
	if err != nil {
		return nil, err
	}
	stops.add("presence", func(context.Context) error { return presence.Close() })
	ledger, err := decide.NewLedger(decide.LedgerOptions{Local: memory, Nodes: presence.Live, Now: host.Now})
	if err != nil {
		return nil, err
	}
	stops.add("reconciliation of local decisions", task(func(ctx context.Context) { ledger.Settle(ctx, store) }))
	metrics.CounterStore(telemetry.CounterStore{Breakers: store.Breakers, Nodes: presence.Live, Units: ledger.Stats, Slots: store.Stats})
	posted, err := fleet.NewLoadBoard(client, cfg.KeyPrefix)
	if err != nil {
		return nil, err
	}
	near, hot, err := answerNear(cfg, host, metrics, client, store, presence.Live, stops)
	if err != nil {
		return nil, err
	}
	return &counters{
		store: near, hot: hot, local: memory, ledger: ledger, loads: decide.NewLoads(posted, host.Now), board: fleet.NewRedis(client, cfg.KeyPrefix), kind: "redis",
		breakers: func() []fleet.Breaker { return shownBreakers(store.Breakers()) },
	}, nil
}

func noBreakers() []fleet.Breaker { return nil }

func shownBreakers(bs []redisstore.Breaker) []fleet.Breaker {
	out := make([]fleet.Breaker, len(bs))
	for i, b := range bs {
		out[i] = fleet.Breaker{Server: b.Node, State: b.State.String(), Since: b.Since.UnixMilli(), Opened: b.Opened, Cause: string(b.Cause)}
	}
	return out
}

// quietRedis keeps go-redis from writing to standard error by itself. What fails
// is classified, counted and logged by the observer.
var quietRedis = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

// Printf drops a line.
func (silence) Printf(context.Context, string, ...any) {}

// keepOnDisk restores the last snapshot, saves at intervals, and once more when
// everything that could still count has stopped.
func keepOnDisk(cfg *config.Serve, memory snapshotter, log *slog.Logger, metrics *telemetry.Metrics, stops *stops) {
	s := &snapshots{store: memory, path: cfg.SnapshotFile(), log: log, metrics: metrics}
	s.restore()
	stops.add("final snapshot", func(context.Context) error { return s.save() })
	stops.add("snapshots", task(func(ctx context.Context) { s.run(ctx, cfg.SnapshotInterval) }))
}
