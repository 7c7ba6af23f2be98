package app

import (
	"context"
	"path/filepath"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/deferred/filequeue"
	"sluice/internal/deferred/redisqueue"
	"sluice/internal/secretfile"
	"sluice/internal/telemetry"
	"sluice/limiter/redisstore"
	"sluice/rules/match"
)

// queueConnections is the maximum number of Redis connections for deferred requests.
// They have their own pool, so that checks do not wait behind payloads.
const queueConnections = 16

// queueDir is the directory of the queue files.
func queueDir(cfg *config.Serve) string { return filepath.Join(cfg.DataDir, "deferred") }

// openQueue opens the deferred queues: in Redis if the counters are there, otherwise in
// files in the data directory. url is the file with the URL of Redis, or nil.
func openQueue(cfg *config.Serve, host *Host, url *secretfile.File, sets *match.Current, metrics *telemetry.Metrics,
	stops *stops) (decide.Queue, error) {
	dropped := func(rule int64, n int) {
		metrics.ObserveDeferral(decide.Deferral{Rule: ruleName(sets, rule), What: decide.DeferralDropped,
			Reason: decide.DroppedExpired, Count: n})
	}
	if cfg.Redis() {
		client, err := redisClient(cfg, url, redisstore.ClientOptions{PoolSize: queueConnections})
		if err != nil {
			return nil, err // names REDIS_URL, never its password
		}
		stops.add("Redis client of the deferred queues", func(context.Context) error { return client.Close() })
		return redisqueue.New(redisqueue.Options{Client: client, Now: host.Now, Prefix: cfg.KeyPrefix, Dropped: dropped})
	}
	q, err := filequeue.Open(filequeue.Options{
		Dir: queueDir(cfg), Now: host.Now, Dropped: dropped,
		Unusable: func(file string, err error) {
			host.Log.Error("a deferred queue cannot be read; other queues are not affected", "file", file, "error", err)
		},
		Torn: func(rule, bytes int64) {
			host.Log.Warn("the damaged end of a deferred queue was removed", "rule_id", rule, "bytes", bytes)
		},
	})
	if err != nil {
		return nil, err
	}
	stops.add("deferred queues", func(context.Context) error { return q.Close() })
	return q, nil
}

// ruleName returns the name of a rule in force, or "".
func ruleName(sets *match.Current, id int64) string {
	if set := sets.Load(); set != nil {
		if r := set.Get(id); r != nil {
			return r.Rule.Name
		}
	}
	return ""
}
