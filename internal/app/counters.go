package app

import (
	"context"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/telemetry"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
)

// openCounters opens the counter store and, beside Redis, the one that decides
// for the local fail mode. Without Redis the first is in memory and kept on
// disk, and there is no second. Redis need not answer yet.
func openCounters(cfg *config.Serve, log *slog.Logger, metrics *telemetry.Metrics, stops *stops) (store, local limiter.Store, err error) {
	memory := memstore.New(memstore.Options{MaxKeys: cfg.MaxKeys})
	stops.add("memory store", func(context.Context) error { return memory.Close() })
	metrics.MemoryStore(
		func() int64 { return int64(memory.Keys()) },
		func() int64 { return int64(memory.Evicted()) },
	)
	if cfg.RedisURL == "" {
		if cfg.Postgres() {
			log.Warn("no REDIS_URL: this node counts for itself; several nodes would each allow the whole limit")
		}
		keepOnDisk(cfg, memory, log, metrics, stops)
		return memory, nil, nil
	}
	quietRedis()
	client, err := redisstore.NewClient(cfg.RedisURL, redisstore.ClientOptions{})
	if err != nil {
		return nil, nil, err // names REDIS_URL, never its password
	}
	stops.add("redis client", func(context.Context) error { return client.Close() })
	buckets, err := redisstore.New(redisstore.Options{Client: client, Prefix: cfg.KeyPrefix})
	if err != nil {
		return nil, nil, err
	}
	stops.add("redis store", func(context.Context) error { return buckets.Close() })
	return buckets, memory, nil
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
	stops.add("last snapshot", func(context.Context) error { return s.save() })
	stops.add("snapshots", task(func(ctx context.Context) { s.run(ctx, cfg.SnapshotInterval) }))
}
