package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
	"sluice/internal/atomicfile"
	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/telemetry"
	"sluice/internal/tick"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/rules"
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
func openCounters(ctx context.Context, cfg *config.Serve, host *Host, metrics *telemetry.Metrics, stops *stops, fatal func(error)) (*counters, error) {
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
	return openRedis(ctx, cfg, host, memory, metrics, stops, fatal)
}

// openRedis opens the shared counter store, with memory beside it.
func openRedis(ctx context.Context, cfg *config.Serve, host *Host, memory limiter.Store, metrics *telemetry.Metrics, stops *stops, fatal func(error)) (*counters, error) {
	quietRedis()
	client, err := redisstore.NewClient(cfg.RedisURL, redisstore.ClientOptions{})
	if err != nil {
		return nil, err // names REDIS_URL, never its password
	}
	stops.add("Redis client", func(context.Context) error { return client.Close() })
	breakers := &breakerLog{log: host.Log, now: host.Now}
	store, err := redisstore.New(redisstore.Options{
		Client: client, Prefix: cfg.KeyPrefix, Clock: host.Clock, OnBreaker: breakers.changed, ProbeLimit: cfg.StoreTimeout,
	})
	if err != nil {
		return nil, err
	}
	stops.add("Redis store", func(context.Context) error { return store.Close() })
	agreed := newAgreement(cfg, client, store.UsePlainKeys, host.Log)
	if err := agreed.first(ctx); err != nil {
		return nil, err
	}
	stops.add("comparison of settings", task(func(ctx context.Context) { agreed.run(ctx, fatal) }))
	metrics.SettingsDiffer(agreed.differ.Load)
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
	stops.add("reconciliation of local decisions", task(func(ctx context.Context) { ledger.Reconcile(ctx, store) }))
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

// followLoads keeps up with what the fleet reports about the pools of the set in
// force, wherever a report was made.
func followLoads(loads *decide.Loads, sets *rules.Current, stops *stops) {
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

// snapshots keeps the counters of this process on disk, so that a restart
// forgets nothing and a crash no more than one interval.
type snapshots struct {
	store   snapshotter
	path    string
	log     *slog.Logger
	metrics *telemetry.Metrics
}

// restore loads the last snapshot. One that is torn, corrupt or from a newer
// build is refused with a log line, and counting starts afresh: wrong counters
// are worse than none, and no server at all is worse still.
func (s *snapshots) restore() {
	err := s.store.LoadFile(s.path)
	switch {
	case err == nil:
		s.metrics.Snapshot("restored")
		s.log.Info("counters restored", "file", s.path)
	case errors.Is(err, fs.ErrNotExist):
		s.log.Debug("there is no counter snapshot to restore", "file", s.path)
	default:
		s.metrics.Snapshot("refused")
		s.log.Error("the counter snapshot was rejected; all counters start at zero", "file", s.path, "error", err)
	}
}

// save writes a snapshot. A failure (a full disk) is loud and nothing more.
func (s *snapshots) save() error {
	if err := s.store.SaveFile(s.path); err != nil {
		s.metrics.Snapshot("failed")
		s.log.Error("saving the counter snapshot failed; the previous snapshot is kept", "file", s.path, "error", err)
		return err
	}
	s.metrics.Snapshot("saved")
	return nil
}

// run saves every interval until ctx ends; 0 means never.
func (s *snapshots) run(ctx context.Context, every time.Duration) {
	if every == 0 {
		<-ctx.Done()
		return
	}
	for range tick.Every(ctx, every) {
		_ = s.save() // logged and counted there; the next one may succeed
	}
}

// mostNodes is above any number of nodes that is remembered.
const mostNodes = 100_000

// nodeCount remembers on disk how many nodes share the counters, so that a node
// that starts while Redis is unreachable enforces its share of a limit and not the
// whole.
type nodeCount struct {
	path string
	log  *slog.Logger
}

// load returns the number last saved, 0 if there is none that makes sense.
func (c nodeCount) load() int {
	b, err := os.ReadFile(c.path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 || n > mostNodes {
		c.log.Warn("the saved node count is not valid and is ignored", "file", c.path)
		return 0
	}
	return n
}

// save keeps the number for the next start. It can do without.
func (c nodeCount) save(n int) {
	err := makeDataDir(filepath.Dir(c.path))
	if err == nil {
		err = atomicfile.Write(c.path, func(f *os.File) error {
			_, err := f.WriteString(strconv.Itoa(n) + "\n")
			return err
		})
	}
	if err != nil {
		c.log.Warn("saving the node count failed; a start during a Redis outage uses an older count", "file", c.path, "error", err)
	}
}
