package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/metadata"

	"sluice/internal/testenv"
)

// Proxies on two nodes divide a limit in Redis by their demand, and get no more than all of it.
func TestQuota_TwoNodesDivideALimit(t *testing.T) {
	withLoopAndWithout(t, func(t *testing.T, loop string) {
		within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		prefix := fmt.Sprintf("q%d:", time.Now().UnixNano())
		var nodes [2]*node
		var streams [2]quotav3.RateLimitQuotaService_StreamRateLimitQuotasClient
		report := func(i int, allowed, denied uint64) {
			t.Helper()
			err := streams[i].Send(&quotav3.RateLimitQuotaUsageReports{Domain: "shop",
				BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
					BucketId:           &quotav3.BucketId{Bucket: map[string]string{"user": "42"}},
					NumRequestsAllowed: allowed, NumRequestsDenied: denied,
				}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		units := func(i int) uint64 {
			t.Helper()
			m, err := streams[i].Recv()
			if err != nil {
				t.Fatal(err)
			}
			n := len(m.GetBucketAction())
			if n == 0 {
				t.Fatal("a message without actions")
			}
			return uint64(m.GetBucketAction()[n-1].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket().
				GetMaxTokens())
		}
		for i := range nodes {
			cfg := settings(t)
			cfg.Loop, cfg.RedisURL.Value, cfg.KeyPrefix = loop, testenv.SharedRedis(t).URL(), prefix
			n, addr := startGRPC(t, cfg)
			n.create(`{"name":"quota","algorithm":"fixed_window","limit":4000,"window_ms":86400000,"fail_mode":"closed",
				"descriptor":{"domain":"shop","entries":[{"key":"user"}]}}`)
			eventually(t, "the rule is in force", func() bool {
				_, doc := n.send(http.MethodPost, "/ratelimit/rls",
					`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"other"}]}]}`)
				return strings.Contains(fmt.Sprint(doc), "currentLimit")
			})
			client := quotav3.NewRateLimitQuotaServiceClient(dialGRPC(t, addr, nil).conn)
			ctx := metadata.AppendToOutgoingContext(within, "authorization", "Bearer "+n.token)
			stream, err := client.StreamRateLimitQuotas(ctx)
			if err != nil {
				t.Fatal(err)
			}
			nodes[i], streams[i] = n, stream
		}
		report(0, 0, 50) // 10 per second: 600 in a minute, and a fifth more
		if got := units(0); got != 721 {
			t.Errorf("the first got %d units", got)
		}
		report(1, 0, 5000)
		if got := units(1); got != 2000 {
			t.Errorf("the second got %d units, want half of the limit", got)
		}
		held := func(i int) string {
			t.Helper()
			_, doc := nodes[i].send(http.MethodPost, "/ratelimit/explain",
				`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`)
			list, _ := doc["descriptors"].([]any)
			first, _ := list[0].(map[string]any)
			bucket, _ := first["bucket"].(map[string]any)
			return fmt.Sprint(bucket["held_by"])
		}
		for i := range nodes {
			if got, want := held(i), "[map[holders:2 kind:envoy_quota units:2721]]"; got != want {
				t.Errorf("node %d explains %s, want %s", i, got, want)
			}
		}
		if got := nodes[1].metric(`sluice_envoy_quota_units_total{what="granted"}`); got != 2000 {
			t.Errorf("%v units were counted", got)
		}
		report(1, 2000, 5000)
		if got := units(1); got != 200 {
			t.Errorf("the second got %d more units, want a 20th", got)
		}
		if got, want := held(0), "[map[holders:2 kind:envoy_quota units:921]]"; got != want {
			t.Errorf("after 2,000 were spent, explain says %s, want %s", got, want)
		}
	})
}
