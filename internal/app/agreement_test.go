package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

// redisOf is a client of the Redis that settings name.
func redisOf(t *testing.T, cfg *config.Serve) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(cfg.RedisURL.Value)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAgreement_ANodeThatDiffersIsRefusedUntilTheFleetChanges(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	first := start(t, cfg)
	other := cfg
	other.DataDir, other.IPv6Prefix = t.TempDir(), 56
	_, err := tryStart(t, other)
	if err == nil {
		t.Fatal("a node that names buckets by other addresses starts")
	}
	for _, want := range []string{"--ipv6-prefix", "SLUICE_IPV6_PREFIX", "56", `"64"`,
		"HSET " + cfg.KeyPrefix + "settings ipv6_prefix 56"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if err := redisOf(t, &cfg).HSet(t.Context(), cfg.KeyPrefix+"settings", "ipv6_prefix", "56").Err(); err != nil {
		t.Fatal(err)
	}
	start(t, other)
	eventually(t, "the first node says that it differs and goes on", func() bool {
		return strings.Contains(first.text("/metrics"), "sluice_settings_differ 1") &&
			strings.Contains(first.log.String(), "does not agree with the settings")
	})
	if status, _ := first.send("GET", "/readyz", ""); status != 200 {
		t.Errorf("the first node is not ready: %d", status)
	}
}

func TestAgreement_ARedisBelongsToOneRegion(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	of := func(region string) *agreement {
		a, _ := follower(t, url, func(cfg *config.Serve) { cfg.Region = region })
		return a
	}
	alone := of("")
	if err := alone.compare(t.Context()); err != nil {
		t.Fatalf("a node without regions: %v", err)
	}
	if err := of("eu").compare(t.Context()); err != nil {
		t.Fatalf("the first node of a region: %v", err)
	}
	err := of("us").compare(t.Context())
	if !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), `--region (SLUICE_REGION) is "us"`) ||
		!strings.Contains(err.Error(), `use "eu"`) || !strings.Contains(err.Error(), "HSET sl:settings region us") {
		t.Errorf("a node of another region: %v", err)
	}
	err = of("").compare(t.Context())
	if !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "HDEL sl:settings region") {
		t.Errorf("a node without regions beside one with: %v", err)
	}
	if err := of("eu").compare(t.Context()); err != nil {
		t.Errorf("the second node of the region: %v", err)
	}
}

func TestAgreement_ANodeOfTheVersionBeforeLeavesNothingToDifferFrom(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	cfg.IPv6Prefix = 56 // as in its environment
	start(t, cfg)
	got, err := redisOf(t, &cfg).HGetAll(t.Context(), cfg.KeyPrefix+"settings").Result()
	if err != nil || got["ipv6_prefix"] != "56" || got["ipv4_prefix"] != "32" || got["names"] != "packed" {
		t.Errorf("stored %v, %v", got, err)
	}
}

func TestAgreement_ReadableNamesAreKeptWhereRedisSaysSo(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	cfg.RedisURL.Value, cfg.KeyPrefix = testenv.Redis(t).URL(), "sl:" // short, so that names could be packed
	c := redisOf(t, &cfg)
	if err := c.HSet(t.Context(), cfg.KeyPrefix+"settings", "names", "plain").Err(); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	n.create(`{"name":"r","scope":"user","limit":3,"window_ms":86400000}`)
	n.check(`{"user":"42"}`)
	keys, err := c.Keys(t.Context(), cfg.KeyPrefix+"{user:42}*").Result()
	if err != nil || len(keys) != 1 {
		t.Errorf("readable keys: %q, %v", keys, err)
	}
}

// follower is an agreement without a server around it.
func follower(t *testing.T, url string, edit func(*config.Serve)) (*agreement, *redis.Client) {
	t.Helper()
	cfg := config.Serve{
		Counters: config.Counters{RedisURL: config.Secret{Value: url}, KeyPrefix: "sl:"},
		Matching: config.Matching{IPv4Prefix: 32, IPv6Prefix: 64, RouteCase: config.CaseKeep},
	}
	if edit != nil {
		edit(&cfg)
	}
	c := redisOf(t, &cfg)
	return newAgreement(&cfg, c, func(bool) {}, slog.New(slog.DiscardHandler)), c
}

func TestAgreement_StartsWithoutRedisAndRefusesLater(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	good, c := follower(t, server.URL(), nil)
	bad, _ := follower(t, server.URL(), func(cfg *config.Serve) { cfg.IPv4Prefix = 24 })
	server.Kill()
	if err := errors.Join(good.first(t.Context()), bad.first(t.Context())); err != nil {
		t.Fatalf("without Redis: %v", err)
	}
	if good.differ.Load() != -1 {
		t.Errorf("%d settings differ, want -1: not compared", good.differ.Load())
	}
	server.Restart()
	if err := good.compare(t.Context()); err != nil || !good.agreed || good.differ.Load() != 0 {
		t.Fatalf("with Redis: %v", err)
	}
	if err := bad.compare(t.Context()); !errors.Is(err, errDiffers) || bad.agreed || bad.differ.Load() != 1 {
		t.Errorf("a node that differs: %v", err)
	}
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := good.compare(t.Context()); err != nil || c.HGet(t.Context(), "sl:settings", "ipv4_prefix").Val() != "32" {
		t.Errorf("what a flush took away is not stored again: %v", err)
	}
}

func TestAgreement_FollowsTheFormOfNamesAndKeepsItThroughAFlush(t *testing.T) {
	t.Parallel()
	a, c := follower(t, testenv.Redis(t).URL(), nil)
	var told []bool
	a.usePlain = func(plain bool) { told = append(told, plain) }
	steps := []struct {
		do    func(context.Context) error
		plain bool
	}{
		{func(context.Context) error { return nil }, false},
		{func(ctx context.Context) error { return c.HSet(ctx, "sl:settings", "names", "plain").Err() }, true},
		{func(ctx context.Context) error { return c.FlushAll(ctx).Err() }, true},
		{func(ctx context.Context) error { return c.HSet(ctx, "sl:settings", "names", "packed").Err() }, false},
	}
	for i, s := range steps {
		if err := errors.Join(s.do(t.Context()), a.compare(t.Context())); err != nil || a.plain != s.plain {
			t.Errorf("step %d: plain %v, %v; want %v", i, a.plain, err, s.plain)
		}
	}
	if len(told) != 2 || !told[0] || told[1] {
		t.Errorf("the store was told %v, want true and false", told)
	}
	if err := c.HSet(t.Context(), "sl:settings", "names", "short").Err(); err != nil {
		t.Fatal(err)
	}
	if err := a.compare(t.Context()); !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "packed or plain") {
		t.Errorf("an unknown form of names: %v", err)
	}
}
