package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/telemetry"
	"sluice/limiter"
	"sluice/limiter/nearstore"
	"sluice/rules"
)

// answerNear puts in front of the shared store what need not ask it, as far as
// the settings say. hot lists this node's hot keys.
func answerNear(cfg *config.Serve, host *Host, metrics *telemetry.Metrics, client redis.UniversalClient, shared limiter.Store, nodes func() int, stops *stops) (store limiter.Store, hot func(int) []limiter.HotKey, err error) {
	opt := nearstore.Options{
		Store: shared, Now: host.Now, Nodes: nodes, HotRate: cfg.HotKeyRate, DenyExact: cfg.DenyCache == "exact",
		TurnedHot: (&hotLog{log: host.Log, now: host.Now}).turned,
	}
	if cfg.DenyCache != "off" {
		opt.DenyCache = denyCacheSize
	}
	var bus atomic.Pointer[fleet.Bus] // the two need each other
	opt.Tell = func(k limiter.Key, slices bool) {
		if b := bus.Load(); b != nil {
			b.Send(k, slices)
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
	metrics.Near(func() telemetry.Near { return telemetry.Near{Stats: near.Stats(), Bus: b.Stats()} })
	return near, near.HotKeys, nil
}

// denyCacheSize is of how many buckets denials are remembered, some 500 bytes each.
const denyCacheSize = 100_000

// hotPause is the least time between two log lines about hot keys.
const hotPause = 10 * time.Second

// hotLog tells of keys that turn hot, without the keys.
type hotLog struct {
	log   *slog.Logger
	now   func() time.Time
	last  time.Time
	quiet int64 // since the last line
}

// turned hears of each key; by one goroutine.
func (h *hotLog) turned(k limiter.HotKey) {
	now := h.now()
	if !h.last.IsZero() && now.Sub(h.last) < hotPause {
		h.quiet++
		return
	}
	id, _ := rules.RuleID(k.Key)
	h.log.Warn("a key became hot", "rule_id", id, "served", k.State.String(), "rate", k.Rate, "others_since_the_last_line", h.quiet,
		"more", "GET /ratelimit/hot lists them")
	h.last, h.quiet = now, 0
}

// looked is how many of the busiest buckets are looked at for hot ones, which
// are the busiest.
const looked = 1000

// hotKeys is how many keys are hot on this node.
func (c *counters) hotKeys() int {
	n := 0
	if c.hot != nil {
		for _, k := range c.hot(looked) {
			if k.Hot {
				n++
			}
		}
	}
	return n
}

// hot is what this node tells the others about its busiest keys; nil where nobody
// looks for them.
func (f *figures) hot() func(most int) []fleet.HotKey {
	if f.counters.hot == nil {
		return nil
	}
	return func(most int) []fleet.HotKey {
		keys := f.counters.hot(most)
		out := make([]fleet.HotKey, 0, len(keys))
		for _, k := range keys {
			if k.Rate > 0 || k.Hot {
				out = append(out, fleet.ShowHot(k))
			}
		}
		return out
	}
}

// hotEverywhere are the busiest keys of all nodes, for the API.
func (f *figures) hotEverywhere(ctx context.Context) ([]fleet.HotLive, error) {
	live := f.reader.Live(ctx)
	return live.Hot, live.Err
}
