package app

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/internal/testenv"
)

// The node would wait for Redis for longer than a caller does. Whether an answer reaches the caller in time is up to
// the machine too, so a caller's own DEADLINE_EXCEEDED is no error here: the node's counters say how it decided.
func TestGRPC_FrozenRedisIsDecidedByTheFailModes(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	srv := testenv.Redis(t)
	cfg := onRedis(t, srv.URL())
	cfg.StoreTimeout = 10 * patience
	n, addr := startGRPC(t, cfg)
	ok, over := ratelimitv3.RateLimitResponse_OK, ratelimitv3.RateLimitResponse_OVER_LIMIT
	modes := []struct {
		mode, result string
		code         ratelimitv3.RateLimitResponse_Code
	}{{"open", "allowed", ok}, {"closed", "unavailable", over}, {"local", "allowed", ok}}
	d := dialGRPC(t, addr, nil)
	ask := func(mode, user string) (*ratelimitv3.RateLimitResponse, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return d.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: mode,
			Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{
				{Key: "user", Value: user}}}}})
	}
	degraded := func(a *ratelimitv3.RateLimitResponse) string {
		return a.GetDynamicMetadata().GetFields()["degraded"].GetStringValue()
	}
	for _, m := range modes {
		n.create(fmt.Sprintf(`{"name":"%s","descriptor":{"domain":"%[1]s","entries":[{"key":"user"}]},"limit":1000,`+
			`"window_ms":3600000,"algorithm":"fixed_window","fail_mode":"%[1]s"}`, m.mode))
	}
	for _, m := range modes {
		eventually(t, "Redis decides", func() bool {
			a, err := ask(m.mode, "first")
			return err == nil && a.GetOverallCode() == ok && degraded(a) == ""
		})
	}
	series := func(mode, result string) string {
		return fmt.Sprintf(`sluice_envoy_domain_calls_total\{domain="%s",result="%s"\}`, mode, result)
	}
	all := `sluice_envoy_calls_total\{face="ratelimit",result=".*"\}`
	callsBefore, before := n.sum(all), map[string]float64{}
	for _, m := range modes {
		before[m.mode] = n.sum(series(m.mode, m.result))
	}
	srv.Pause()
	defer srv.Resume()
	// Redis stays frozen until the test ends: whoever is answered did not wait for it.
	var wg sync.WaitGroup
	for _, m := range modes {
		for client := range 4 {
			wg.Go(func() {
				answers := 0
				for range 10 {
					a, err := ask(m.mode, fmt.Sprintf("u%d", client))
					switch {
					case status.Code(err) == codes.DeadlineExceeded:
						continue
					case err != nil || a.GetOverallCode() != m.code || degraded(a) != m.mode:
						t.Errorf("%s: %v, %v", m.mode, a, err)
					}
					answers++
				}
				if answers == 0 {
					t.Errorf("%s: no answer within %s in ten calls", m.mode, patience)
				}
			})
		}
	}
	wg.Wait()
	calls, decided := 0.0, 0.0
	eventually(t, "every call is decided by its fail mode", func() bool {
		calls, decided = n.sum(all)-callsBefore, 0
		for _, m := range modes {
			decided += n.sum(series(m.mode, m.result)) - before[m.mode]
		}
		return calls == decided && calls > 100
	})
}
