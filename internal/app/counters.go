package app

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
	"sluice/api/envoy/quota"
	"sluice/internal/atomicfile"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/internal/history"
	"sluice/internal/starvation"
	"sluice/internal/telemetry"
	"sluice/internal/tick"
	"sluice/internal/traces"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/rules/match"
)

// counters is the counter store with the parts that depend on it.
type counters struct {
	// store decides requests.
	store limiter.Store
	// local decides for fail mode local while Redis is unavailable, and ledger records the requests that it admitted.
	// Both are nil without Redis.
	local  limiter.Store
	ledger *decide.Ledger
	// loads holds the load reports of pools.
	loads *decide.Loads
	// quotas holds the demand of the proxies of other nodes; nil without Redis.
	quotas quota.Board
	// board is where the nodes that share these counters publish their figures. kind is
	// redis or memory. breakers returns the state of the circuit breakers.
	board    history.Board
	kind     string
	breakers func() []history.Breaker
	// hot lists the busiest keys of this node; nil without hot-key detection.
	hot func(most int) []limiter.HotKey
	// sums reads the spent units of this region in limits that span regions, and its high-water marks. It is nil
	// without Redis.
	sums interface {
		limiter.Exporter
		limiter.SpentReader
		limiter.HighWaterReader
	}
	// home decides keys that are at home in other regions; nil without regions.
	home     *homeStore
	arrivals *fleet.RegionArrivals
	// shares keeps the shares of limits that are divided among regions; nil without Redis.
	shares *fleet.RegionShares
	// periods finds the buckets whose periods are kept, and left returns the number of nodes sharing them that have
	// disappeared. shared is the store below the deny cache, which reconciles local decisions; nil without Redis.
	periods limiter.PeriodLister
	left    func() int64
	shared  limiter.Store
	// agreed compares the settings that nodes share; nil without Redis.
	agreed *agreement
}

// openCounters opens the counter store: Redis, with memory for fail mode local, or
// memory with snapshots on disk. Redis need not be available yet.
func openCounters(ctx context.Context, cfg *config.Serve, host *Host, files secretFiles, sets *match.Current,
	metrics *telemetry.Metrics, spans *traces.Traces, meter *starvation.Meter, stops *stops,
) (*counters, error) {
	most := keyLimit(int(cfg.MaxKeys), memoryLimits())
	host.Log.Info("the number of in-memory counters is limited", "keys", most.keys, "because", most.because)
	memory := memstore.New(memstore.Options{MaxKeys: most.keys, Clock: host.Clock})
	stops.add("memory store", func(context.Context) error { return memory.Close() })
	stops.add("memory release", task(func(ctx context.Context) {
		releaseMemory(ctx, func() int64 { return int64(memory.Keys())*bytesPerKey + memory.RecordBytes() })
	}))
	metrics.MemoryStore(memory)
	outcomes := snapshotMetric(metrics)
	if !cfg.Redis() {
		if cfg.Postgres() {
			host.Log.Warn("REDIS_URL is not set: this node counts alone, and each of several nodes allows the full limit")
		}
		startSnapshots(cfg, memory, host.Log, outcomes, stops)
		c := &counters{store: memory, periods: memory, left: func() int64 { return 0 },
			loads: decide.NewLoads(nil, host.Now), board: history.NewMemory(host.Now),
			kind: "memory", breakers: func() []history.Breaker { return nil }}
		if host.Demo != nil {
			return c, c.openDemo(cfg, host, stops)
		}
		return c, nil
	}
	return openRedis(ctx, cfg, host, files, sets, memory, metrics, spans, meter, stops)
}

// openRedis opens the shared counter store. memory decides for fail mode local.
func openRedis(ctx context.Context, cfg *config.Serve, host *Host, files secretFiles, sets *match.Current,
	memory limiter.Store, metrics *telemetry.Metrics, spans *traces.Traces,
	meter *starvation.Meter, stops *stops) (*counters, error) {
	silenceRedis()
	client, err := redisClient(cfg, files[&cfg.RedisURL], redisstore.ClientOptions{})
	if err != nil {
		return nil, err // names REDIS_URL, never its password
	}
	stops.add("Redis client", func(context.Context) error { return client.Close() })
	store, err := redisstore.New(redisstore.Options{
		Client: client, Prefix: cfg.KeyPrefix, Clock: host.Clock, OnBreaker: host.breakerChanged,
		ProbeLimit: cfg.StoreTimeout,
		Timings:    metrics.Timings(), Trace: spans.Calls(), Lost: meter.Refresh,
		Regions: limiter.Regions{Count: int64(regionCount(cfg)), Wait: cfg.RegionInterval.Milliseconds(),
			Parts: limiter.WorthParts(int64(regionCount(cfg))), Restores: true},
	})
	if err != nil {
		return nil, err
	}
	stops.add("Redis store", func(context.Context) error { return store.Close() })
	agreed := newAgreement(cfg, client, store.UsePlainKeys, host.Log)
	agreed.trouble = host.trouble
	if err := agreed.first(ctx); err != nil {
		return nil, err
	}
	agreed.register(metrics)
	nodes := nodeCountFile{path: cfg.NodesFile(), log: host.Log}
	presence, err := fleet.NewPresence(fleet.PresenceOptions{Client: client, Prefix: cfg.KeyPrefix, Now: time.Now,
		Known: nodes.load(), Counted: nodes.save})
	if err != nil {
		return nil, err
	}
	stops.add("presence", func(context.Context) error { return presence.Close() })
	ledger, err := decide.NewLedger(decide.LedgerOptions{Local: memory, Nodes: presence.Live, Now: host.Now})
	if err != nil {
		return nil, err
	}
	shared := limiter.Store(store)
	homes, err := openHome(cfg, host, files[&cfg.RegionToken], sets, store, metrics, stops)
	if err != nil {
		return nil, err
	}
	if homes != nil {
		shared = homes
	}
	store.Register(metrics)
	presence.Register(metrics)
	metrics.Ledger(ledger.Stats)
	loadBoard, err := fleet.NewLoadBoard(client, cfg.KeyPrefix)
	if err != nil {
		return nil, err
	}
	quotas, err := fleet.NewQuotaBoard(client, cfg.KeyPrefix, rand.Text())
	if err != nil {
		return nil, err
	}
	near, hot, err := openNearStore(cfg, host, metrics, client, shared, presence.Live, stops)
	if err != nil {
		return nil, err
	}
	return &counters{
		store: near, periods: store, left: presence.Left, shared: shared, hot: hot, local: memory, ledger: ledger,
		loads: decide.NewLoads(loadBoard, host.Now),
		board: history.NewRedisBoard(client, cfg.KeyPrefix), kind: "redis",
		breakers: func() []history.Breaker { return shownBreakers(store.Breakers()) },
		home:     homes, sums: store, arrivals: fleet.NewRegionArrivals(client, cfg.KeyPrefix),
		shares: fleet.NewRegionShares(client, cfg.KeyPrefix), agreed: agreed, quotas: &quotaBoard{quotas, host.Now},
	}, nil
}

// agree compares what nodes that share counters must have in common, now that the rules database is known, and from now
// on. Without Redis there is nothing to compare.
func (c *counters) agree(ctx context.Context, db *database.DB, stops *stops, fatal func(error)) error {
	if c.agreed == nil {
		return nil
	}
	if err := c.agreed.database(ctx, db.ID); err != nil {
		return err
	}
	compare := task(func(ctx context.Context) { c.agreed.run(ctx, fatal) })
	stops.add("comparison of settings", func(wait context.Context) error {
		err := compare(wait)
		c.agreed.leave(wait)
		return err
	})
	return nil
}

func shownBreakers(bs []redisstore.Breaker) []history.Breaker {
	out := make([]history.Breaker, len(bs))
	for i, b := range bs {
		out[i] = history.Breaker{Server: b.Node, State: b.State.String(), Since: b.Since.UnixMilli(), Opened: b.Opened,
			Cause: string(b.Cause)}
	}
	return out
}

// silenceRedis keeps go-redis from writing to standard error. Its errors are
// classified, counted and logged by the observers.
var silenceRedis = sync.OnceFunc(func() { redis.SetLogger(discardLogger{}) })

type discardLogger struct{}

// Printf discards a line.
func (discardLogger) Printf(context.Context, string, ...any) {}

// startSnapshots restores the last snapshot, saves at intervals, and once more after
// everything that can change a counter has stopped.
func startSnapshots(cfg *config.Serve, memory snapshotter, log *slog.Logger, outcomes *prometheus.CounterVec,
	stops *stops) {
	s := &snapshots{store: memory, path: cfg.SnapshotFile(), log: log, outcomes: outcomes}
	s.restore()
	stops.add("final snapshot", func(context.Context) error { return s.save() })
	stops.add("snapshots", task(func(ctx context.Context) { s.run(ctx, cfg.SnapshotInterval) }))
}

// followPoolLoads keeps the load reports of the pools in force up to date, including
// reports that other nodes received.
func followPoolLoads(loads *decide.Loads, sets *match.Current, stops *stops) {
	stops.add("pool loads", task(func(ctx context.Context) {
		loads.Follow(ctx, func() (names []string) {
			if set := sets.Load(); set != nil {
				for _, p := range set.Pools() {
					names = append(names, p.Pool.Name)
				}
			}
			return names
		})
	}))
}

// snapshotter is a store that can be saved to a file and loaded from it.
type snapshotter interface {
	SaveFile(path string) error
	LoadFile(path string) error
}

// snapshots saves the counters of this process to disk, so that a restart loses
// nothing and a crash loses at most one interval.
type snapshots struct {
	store    snapshotter
	path     string
	log      *slog.Logger
	outcomes *prometheus.CounterVec
}

// snapshotMetric registers the metric of snapshots, which nodes with Redis serve too.
func snapshotMetric(to prometheus.Registerer) *prometheus.CounterVec {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_snapshots_total",
		Help: "Snapshots of in-memory counters, by outcome (saved, failed, restored, refused)."}, []string{"outcome"})
	to.MustRegister(outcomes)
	for _, outcome := range []string{"saved", "failed", "restored", "refused"} {
		outcomes.WithLabelValues(outcome)
	}
	return outcomes
}

// restore loads the last snapshot. An incomplete or corrupt snapshot, or one of another
// format, is rejected with a log line, and all counters start at zero: wrong
// counters are worse than none, and a server that does not start is worse still.
func (s *snapshots) restore() {
	err := s.store.LoadFile(s.path)
	switch {
	case err == nil:
		s.outcomes.WithLabelValues("restored").Inc()
		s.log.Info("counters restored", "file", s.path)
	case errors.Is(err, fs.ErrNotExist):
		s.log.Debug("there is no counter snapshot to restore", "file", s.path)
	default:
		s.outcomes.WithLabelValues("refused").Inc()
		s.log.Error("the counter snapshot was rejected; all counters start at zero", "file", s.path, "error", err)
	}
}

// save writes a snapshot. A failure, such as a full disk, is logged and counted.
func (s *snapshots) save() error {
	if err := s.store.SaveFile(s.path); err != nil {
		s.outcomes.WithLabelValues("failed").Inc()
		s.log.Error("saving the counter snapshot failed; the previous snapshot is kept", "file", s.path, "error", err)
		return err
	}
	s.outcomes.WithLabelValues("saved").Inc()
	return nil
}

// run saves at every interval until ctx ends; an interval of 0 means never.
func (s *snapshots) run(ctx context.Context, every time.Duration) {
	for range tick.Every(ctx, every) {
		_ = s.save() // save logs and counts an error; the next one may succeed
	}
}

// maxNodes is the largest node count that is accepted.
const maxNodes = 100_000

// nodeCountFile stores on disk how many nodes share the counters, so that a node that
// starts while Redis is unavailable enforces its share of a limit and not the whole.
type nodeCountFile struct {
	path string
	log  *slog.Logger
}

// load returns the number last saved, or 0 if there is no valid one.
func (c nodeCountFile) load() int {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 || n > maxNodes {
		c.log.Warn("the saved node count is not valid and is ignored", "file", c.path)
		return 0
	}
	return n
}

// save stores the number for the next start. A failure is logged and has no other effect.
func (c nodeCountFile) save(n int) {
	err := createDataDir(filepath.Dir(c.path))
	if err == nil {
		err = atomicfile.Write(c.path, func(f *os.File) error {
			_, err := f.WriteString(strconv.Itoa(n) + "\n")
			return err
		})
	}
	if err != nil {
		c.log.Warn("saving the node count failed; a start during a Redis outage uses an older count", "file", c.path, "error",
			err)
	}
}
