package app

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/internal/testenv"
)

const anyUser = `{"user":"u"}`

func TestRedisKilled_EachRuleDecidesByItsFailMode(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	cfg := settings(t)
	cfg.RedisURL.Value = redis.URL()
	cfg.StoreTimeout = 100 * time.Millisecond
	n := start(t, cfg)
	for _, mode := range []string{"open", "closed", "local"} {
		n.create(`{"name":"` + mode + `","scope":"user","route":"/` + mode +
			`","limit":1,"window_ms":86400000,"fail_mode":"` + mode + `"}`)
	}
	at := func(mode string) map[string]any { return n.check(`{"user":"u","route":"/` + mode + `"}`) }
	if doc := at("open"); doc["degraded"] != nil {
		t.Fatalf("degraded with Redis up: %v", doc)
	}
	redis.Kill()

	if doc := at("open"); doc["allowed"] != true || doc["status"] != float64(200) || doc["degraded"] != "open" {
		t.Errorf("open: %v", doc)
	}
	if doc := at("closed"); doc["allowed"] != false || doc["status"] != float64(503) || doc["degraded"] != "closed" {
		t.Errorf("closed: %v", doc)
	}
	if doc := at("local"); doc["allowed"] != true || doc["degraded"] != "local" {
		t.Errorf("local, first: %v", doc)
	}
	if doc := at("local"); doc["allowed"] != false || doc["status"] != float64(429) || doc["degraded"] != "local" {
		t.Errorf("local, second of a limit of 1: %v", doc)
	}
	if status, _ := n.send("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("a dead Redis made the node unready: %d", status)
	}

	redis.Restart()
	eventually(t, "Redis decides again", func() bool { return at("closed")["degraded"] == nil })
}

func TestRedisAbsentAtStart_StartsAndConnectsByItself(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	redis.Kill()
	cfg := settings(t)
	cfg.RedisURL.Value = redis.URL()
	cfg.StoreTimeout = 100 * time.Millisecond
	n := start(t, cfg)
	if status, _ := n.send("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("not ready without Redis: %d", status)
	}
	n.create(`{"name":"r","scope":"user","limit":1,"window_ms":86400000}`)
	if doc := n.check(anyUser); doc["degraded"] != "open" {
		t.Errorf("not degraded without Redis: %v", doc)
	}
	redis.Restart()
	eventually(t, "Redis decides", func() bool { return n.check(anyUser)["degraded"] == nil })
}

func TestDatabaseDown_ChecksGoOnAndWritesAnswer503(t *testing.T) {
	t.Parallel()
	postgres := testenv.PrivatePostgres(t)
	cfg := settings(t)
	cfg.DatabaseURL.Value = postgres.DSN("postgres")
	n := start(t, cfg)
	n.create(`{"name":"r","scope":"user","limit":1,"window_ms":86400000}`)
	postgres.Stop()
	if !n.allowed(anyUser) || n.allowed(anyUser) {
		t.Error("the rule did not decide while the database was away")
	}
	if status, _ := n.send("POST", "/ratelimit/rules",
		`{"name":"s","scope":"user","limit":1,"window_ms":1000}`); status != http.StatusServiceUnavailable {
		t.Errorf("a write answered %d, want 503", status)
	}
	if status, _ := n.send("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("a node with a set in force is not ready: %d", status)
	}
	postgres.Restart()
	eventually(t, "writes work again", func() bool {
		status, _ := n.send("POST", "/ratelimit/rules", `{"name":"s","scope":"user","limit":1,"window_ms":1000}`)
		return status == http.StatusCreated || status == http.StatusConflict
	})
}

func TestDatabaseDownAtStart_ServesUnreadyAndRetries(t *testing.T) {
	t.Parallel()
	postgres := testenv.PrivatePostgres(t)
	cfg := settings(t)
	cfg.DatabaseURL.Value = postgres.DSN("postgres")
	postgres.Stop()
	n, addr := startGRPC(t, cfg)
	envoy := dialGRPC(t, addr, nil)
	if status, _ := n.send("GET", "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("ready without rules: %d", status)
	}
	if status, _ := n.send("GET", "/livez", ""); status != http.StatusOK {
		t.Errorf("not alive: %d", status)
	}
	if status, _ := n.send("POST", "/ratelimit/check", sixth); status == http.StatusOK {
		t.Error("an unknown keyring counted as open mode")
	}
	if _, err := envoy.hit(t.Context(), "42"); status.Code(err) != codes.Unavailable {
		t.Errorf("a call of Envoy without rules: %v", err)
	}
	if !strings.Contains(n.log.String(), "rules database unavailable") {
		t.Errorf("no log line says so:\n%s", n.log)
	}
	postgres.Restart()
	eventually(t, "ready once the database is there", func() bool {
		status, _ := n.send("GET", "/readyz", "")
		return status == http.StatusOK
	})
	if !n.allowed(sixth) {
		t.Error("denied after recovery")
	}
	if _, err := envoy.hit(t.Context(), "42"); err != nil {
		t.Errorf("a call of Envoy after recovery: %v", err)
	}
}

func TestDatabaseDownAtStart_OffLoopbackStillNeedsAToken(t *testing.T) {
	t.Parallel()
	postgres := testenv.PrivatePostgres(t)
	cfg := settings(t)
	cfg.DatabaseURL.Value = postgres.DSN("postgres")
	cfg.Listen = "0.0.0.0:0"
	postgres.Stop()
	n := start(t, cfg)
	postgres.Restart()
	if err := <-n.done; !errors.Is(err, errNoCredentials) {
		t.Errorf("ended with %v, want a refusal\n%s", err, n.log)
	}
}

func TestBadSettings_AreRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.RedisURL.Value = "http://u:hunter2@example"
	_, err := tryStart(t, cfg)
	if err == nil || !strings.Contains(err.Error(), "REDIS_URL") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want REDIS_URL named and no password", err)
	}
	taken := start(t, settings(t))
	cfg = settings(t)
	cfg.Listen = strings.TrimPrefix(taken.url, "http://")
	if _, err := tryStart(t, cfg); err == nil || !strings.Contains(err.Error(), "SLUICE_LISTEN") {
		t.Errorf("got %v, want SLUICE_LISTEN named", err)
	}
}
