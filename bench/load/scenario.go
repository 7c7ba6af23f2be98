package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// scenario is one server setup and the requests sent to it.
type scenario struct {
	name  string
	peer  string // a yardstick instead of sluice
	redis bool
	rules []string
	// path and body make request number n.
	path string
	body func(n, keys int) string
}

func direct(n, keys int) string {
	return fmt.Sprintf(`{"key":"user:%d:GET:/v1/charges","limit":1000000,"window_ms":60000}`, n%keys)
}

func described(n, keys int) string {
	return fmt.Sprintf(`{"method":"POST","route":"/v1/charges","ip":"203.0.113.%d","user":"u%d","api_key":"k%d"}`, n%250, n%keys, n%keys)
}

func rule(name, scope, algorithm string) string {
	return fmt.Sprintf(`{"name":%q,"scope":%q,"route":"/v1/charges","method":"POST","algorithm":%q,"limit":1000000,"window_ms":60000}`, name, scope, algorithm)
}

var (
	oneRule   = []string{rule("per-user", "user", "sliding_window_counter")}
	twoRules  = append(oneRule[:1:1], rule("per-user-burst", "user", "token_bucket"))
	threeRule = append(twoRules[:2:2], rule("per-ip", "ip", "fixed_window"))
)

var scenarios = []scenario{
	{name: "no check: GET /livez", path: "/livez"},
	{name: "yardstick: constant answer", peer: "constant", path: "/ratelimit/check", body: described},
	{name: "yardstick: naive, Redis", peer: "naive", redis: true, path: "/ratelimit/check", body: described},
	{name: "embedded, direct", path: "/ratelimit/check", body: direct},
	{name: "embedded, one rule", path: "/ratelimit/check", body: described, rules: oneRule},
	{name: "embedded, three rules", path: "/ratelimit/check", body: described, rules: threeRule},
	{name: "Redis, direct", redis: true, path: "/ratelimit/check", body: direct},
	{name: "Redis, one rule", redis: true, path: "/ratelimit/check", body: described, rules: oneRule},
	{name: "Redis, two rules", redis: true, path: "/ratelimit/check", body: described, rules: twoRules},
	{name: "Redis, three rules", redis: true, path: "/ratelimit/check", body: described, rules: threeRule},
}

// measurement is what one round of one scenario gave.
type measurement struct {
	perSecond float64
	serverCPU time.Duration // per request
	redisCPU  time.Duration // per request, 0 without Redis
	closed    latencies
	open      latencies
}

type result struct{ rounds []measurement }

func measure(ctx context.Context, s settings, sc scenario, dir string) (measurement, error) {
	var m measurement
	var env []string
	var redis *process
	var url string
	if sc.redis {
		r, u, err := startRedis(ctx, dir)
		if err != nil {
			return m, err
		}
		defer r.stop()
		url = u
		redis, env = r, []string{"REDIS_URL=" + url}
	}
	data := filepath.Join(dir, fmt.Sprintf("data-%d", time.Now().UnixNano()))
	server, addr, err := startServer(ctx, s.binary, data, url, sc, env)
	if err != nil {
		return m, err
	}
	defer server.stop()
	for _, r := range sc.rules {
		if err := post(ctx, addr, "/ratelimit/rules", r, 201); err != nil {
			return m, err
		}
	}
	reqs := requests(addr, sc, s.keys)
	if _, err := closedLoop(ctx, addr, reqs, s.conns, time.Second); err != nil {
		return m, err
	}
	cpu0, redis0 := server.cpu(), redis.cpu()
	length := time.Duration(s.seconds) * time.Second
	lat, err := closedLoop(ctx, addr, reqs, s.conns, length)
	if err != nil {
		return m, err
	}
	n := len(lat)
	m.closed = summarize(lat)
	m.perSecond = float64(n) / length.Seconds()
	m.serverCPU = (server.cpu() - cpu0) / time.Duration(n)
	m.redisCPU = (redis.cpu() - redis0) / time.Duration(n)
	lat, err = openLoop(ctx, addr, reqs, s.conns, s.rate, length)
	if err != nil {
		return m, err
	}
	m.open = summarize(lat)
	return m, nil
}

func startServer(ctx context.Context, binary, data, redisURL string, sc scenario, env []string) (*process, string, error) {
	if sc.peer != "" {
		return startPeer(ctx, sc.peer, filepath.Dir(data), redisURL)
	}
	return startSluice(ctx, binary, data, env)
}
