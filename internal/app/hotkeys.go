package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/limiter/nearstore"
	"sluice/rules/match"
)

// openNearStore adds the deny cache and the leases of hot keys in front of the shared
// store, as far as they are enabled. hot lists the busiest keys of this node.
func openNearStore(cfg *config.Serve, host *Host, metrics prometheus.Registerer, client redis.UniversalClient,
	shared limiter.Store, nodes func() int, stops *stops) (store limiter.Store, hot func(int) []limiter.HotKey,
	err error) {
	opt := nearstore.Options{
		Store: shared, Now: host.Now, Nodes: nodes, HotRate: cfg.HotKeyRate, DenyExact: cfg.DenyCache == "exact",
		TurnedHot: (&hotKeyLog{log: host.Log, now: host.Now}).becameHot,
	}
	if cfg.DenyCache != "off" {
		opt.DenyCache = denyCacheSize
	}
	var bus atomic.Pointer[fleet.Bus] // set below: the store and the bus refer to each other
	opt.Tell = func(k limiter.Key, leases bool) {
		if b := bus.Load(); b != nil {
			b.Send(k, leases)
		}
	}
	near, err := nearstore.New(opt)
	if err != nil {
		return nil, nil, err
	}
	b, err := fleet.NewBus(fleet.BusOptions{Client: client, Prefix: cfg.KeyPrefix, Received: near.Forget})
	if err != nil {
		return nil, nil, err
	}
	bus.Store(b)
	stops.add("messages between nodes", func(context.Context) error { return b.Close() })
	stops.add("deny cache and leases", near.Close)
	near.Register(metrics)
	b.Register(metrics)
	return near, near.HotKeys, nil
}

// openDemo detects hot keys in front of counters in memory, and shows the figures of the demo's past.
func (c *counters) openDemo(cfg *config.Serve, host *Host, stops *stops) error {
	near, err := nearstore.New(nearstore.Options{Store: c.store, Now: host.Now, HotRate: cfg.HotKeyRate,
		TurnedHot: (&hotKeyLog{log: host.Log, now: host.Now}).becameHot})
	if err != nil {
		return err
	}
	stops.add("hot keys", near.Close)
	c.store, c.hot, c.board = near, near.HotKeys, host.Demo.Board
	return nil
}

// denyCacheSize is how many buckets the deny cache holds, of some 500 bytes each.
const denyCacheSize = 100_000

// hotKeyLogInterval is the shortest time between two log lines about hot keys.
const hotKeyLogInterval = 10 * time.Second

// hotKeyLog logs that keys became hot, without the keys themselves.
type hotKeyLog struct {
	log     *slog.Logger
	now     func() time.Time
	last    time.Time
	skipped int64 // keys since the last line
}

// becameHot is called for each key that becomes hot, by one goroutine.
func (h *hotKeyLog) becameHot(k limiter.HotKey) {
	now := h.now()
	if !h.last.IsZero() && now.Sub(h.last) < hotKeyLogInterval {
		h.skipped++
		return
	}
	id, _ := match.RuleID(k.Key)
	h.log.Warn("a key became hot", "rule_id", id, "served", k.State.String(), "rate", k.Rate, "others_since_the_last_line",
		h.skipped,
		"more", "GET /ratelimit/hot lists them")
	h.last, h.skipped = now, 0
}

// hotKeysChecked is how many of the busiest keys are checked for hot ones, which are the
// busiest.
const hotKeysChecked = 1000

// hotKeys returns the number of hot keys on this node.
func (c *counters) hotKeys() int {
	n := 0
	if c.hot != nil {
		for _, k := range c.hot(hotKeysChecked) {
			if k.Hot {
				n++
			}
		}
	}
	return n
}

// hot returns a function that lists the busiest keys of this node for the other
// nodes; nil without hot-key detection.
func (f *fleetReporter) hot() func(most int) []history.HotKey {
	if f.counters.hot == nil {
		return nil
	}
	return func(most int) []history.HotKey {
		keys := f.counters.hot(most)
		out := make([]history.HotKey, 0, len(keys))
		for _, k := range keys {
			if k.Rate > 0 || k.Hot {
				out = append(out, history.ShowHot(k))
			}
		}
		return out
	}
}

// hotEverywhere returns the busiest keys of all nodes.
func (f *fleetReporter) hotEverywhere(ctx context.Context) ([]history.HotLive, error) {
	live := f.live.Live(ctx)
	return live.Hot, live.Err
}
