package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // clients watch the health of each node
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"sluice/internal/testenv"
)

// callRule allows every call of the test. Only Redis may decide.
const callRule = `{"name":"calls","limit":1000000,"window_ms":31536000000,"algorithm":"fixed_window","fail_mode":"closed",
	"descriptor":{"domain":"shop","entries":[{"key":"load"}]}}`

// rollingCalls restarts two nodes, one after the other, under calls of clients that balance as Envoy does: each call
// goes to the next node. Half of the clients watch the health of the nodes, the others only see connections end.
func rollingCalls(t *testing.T, bin string) {
	const clients, callersEach, atLeast = 4, 10, 2000
	redisURL, add, _ := through(t, testenv.SharedRedis(t).Addr)
	// Calls take long enough that some are in flight at every moment.
	add(`{"name":"far","type":"latency","stream":"downstream","attributes":{"latency":10}}`)
	env := append(fleetEnv(t), "REDIS_URL="+redisURL)
	addrs := []string{testenv.FreeAddr(t), testenv.FreeAddr(t)}
	delays := []string{"0s", "500ms"}
	serve := func(i int) *child {
		return spawn(t, bin, "", append(env, "SLUICE_GRPC_LISTEN="+addrs[i], "SLUICE_DRAIN_DELAY="+delays[i])...)
	}
	nodes := []*child{serve(0), serve(1)}
	if status, doc, err := nodes[0].ask("POST", "/ratelimit/rules", callRule); err != nil || status != 201 {
		t.Fatalf("create answered %d %s %v", status, doc, err)
	}
	load := &calls{stopping: make(chan struct{})}
	eventually(t, "the rule is in force on both nodes", func() bool {
		for _, addr := range addrs {
			d := dialGRPC(t, addr, nil)
			a, err := d.ShouldRateLimit(t.Context(), domainCall("load", "probe"))
			if err != nil || a.GetStatuses()[0].GetCurrentLimit() == nil {
				return false
			}
		}
		return true
	})
	for i := range clients {
		client := ratelimitv3.NewRateLimitServiceClient(dialBoth(t, addrs, i%2 == 0))
		for range callersEach {
			load.wg.Go(func() { load.run(t.Context(), client) })
		}
	}
	serves := func() {
		t.Helper()
		from := load.allowed.Load()
		eventually(t, "calls are answered", func() bool { return load.allowed.Load() >= from+atLeast/4 })
	}
	serves()
	for i, old := range nodes {
		if err := old.end(); err != nil {
			t.Errorf("asked to end, it ended with %v\n%s", err, old.log)
		}
		serves()
		nodes[i] = serve(i)
		eventually(t, "the new node is called", func() bool {
			return nodes[i].metric(`sluice_envoy_calls_total{face="ratelimit",result="allowed"}`) > 0
		})
		serves()
	}
	close(load.stopping)
	load.wg.Wait()
	allowed := load.allowed.Load()
	if len(load.failed) != 0 {
		t.Errorf("%d of %d calls failed: %v", len(load.failed), allowed, load.failed[:min(5, len(load.failed))])
	}
	look := `{"domain":"shop","descriptors":[{"entries":[{"key":"load","value":"u"}],"hitsAddend":"0"}]}`
	_, doc, err := nodes[0].ask("POST", "/ratelimit/rls", look)
	if want := fmt.Sprintf(`"limitRemaining":%d`, 1_000_000-allowed); err != nil || !strings.Contains(doc, want) {
		t.Errorf("after %d calls that were allowed Redis holds %s %v", allowed, doc, err)
	}
	t.Logf("%d calls over both restarts", allowed)
}

// dialBoth returns a client that takes turns between the addresses to which it is connected, or with health, between
// those that also say that they serve.
func dialBoth(t *testing.T, addrs []string, health bool) *grpc.ClientConn {
	t.Helper()
	config := `{"loadBalancingConfig":[{"round_robin":{}}]}`
	if health {
		config = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`
	}
	nodes := manual.NewBuilderWithScheme("nodes")
	state := resolver.State{}
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	nodes.InitialState(state)
	conn, err := grpc.NewClient("nodes:///", grpc.WithResolvers(nodes),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithDefaultServiceConfig(config),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 10 * time.Second,
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// calls are calls of one bucket and what became of them.
type calls struct {
	allowed  atomic.Int64
	stopping chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex
	failed   []string // read after wg
}

// run makes at most fifty calls a second.
func (c *calls) run(ctx context.Context, client ratelimitv3.RateLimitServiceClient) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.stopping:
			return
		case <-tick.C:
		}
		a, err := c.call(ctx, client)
		if err == nil && a.GetOverallCode() == ratelimitv3.RateLimitResponse_OK {
			c.allowed.Add(1)
			continue
		}
		c.mu.Lock()
		c.failed = append(c.failed, fmt.Sprintf("%v %v", a, err))
		c.mu.Unlock()
	}
}

// call makes a call with a deadline: without one, a busy machine would deny it as overload after 80 ms.
func (*calls) call(ctx context.Context, client ratelimitv3.RateLimitServiceClient) (*ratelimitv3.RateLimitResponse,
	error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return client.ShouldRateLimit(ctx, domainCall("load", "u"))
}
