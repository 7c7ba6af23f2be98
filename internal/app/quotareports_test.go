package app

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/metadata"

	"sluice/internal/config"
	"sluice/internal/records"
)

// What an Envoy decides by itself counts as if nodes had decided it, once for each report, also on another stream.
func TestQuota_WhatEnvoysReportCounts(t *testing.T) {
	t.Parallel()
	cfg := recording(t, config.DecisionLogFile)
	cfg.LogRate = 0 // denials are recorded nevertheless
	n, addr := startGRPC(t, cfg)
	begin := time.Now()
	n.create(`{"name":"quota","algorithm":"fixed_window","limit":1000,"window_ms":86400000,"fail_mode":"closed",
		"descriptor":{"domain":"shop","entries":[{"key":"user"}]}}`)
	n.create(`{"name":"open","unlimited":true,"descriptor":{"domain":"shop","entries":[{"key":"tenant"}]}}`)
	client := quotav3.NewRateLimitQuotaServiceClient(dialGRPC(t, addr, nil).conn)
	usage := func(key string, allowed, denied uint64) *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage {
		return &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId:           &quotav3.BucketId{Bucket: map[string]string{key: "42"}},
			NumRequestsAllowed: allowed, NumRequestsDenied: denied,
		}
	}
	streams := [2]quotav3.RateLimitQuotaService_StreamRateLimitQuotasClient{}
	for i := range streams {
		var err error
		if streams[i], err = client.StreamRateLimitQuotas(metadata.AppendToOutgoingContext(t.Context(),
			"authorization", "Bearer "+n.token)); err != nil {
			t.Fatal(err)
		}
	}
	report := func(i int, domain string, list ...*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage) {
		t.Helper()
		if err := streams[i].Send(&quotav3.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: list}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the rules are in force", func() bool { return n.metric("sluice_set_rules") == 2 })
	report(0, "shop", usage("user", 0, 30), usage("tenant", 7, 0), usage("nobody", 9, 9))
	report(0, "", usage("user", 40, 2))
	report(0, "other", usage("user", 500, 500)) // the node refuses it
	for {
		if _, err := streams[0].Recv(); err != nil {
			break
		}
	}
	report(1, "shop", usage("user", 60, 3), usage("tenant", 0, 0))
	eventually(t, "the last report counts", func() bool {
		return n.metric(`sluice_decisions_total{mode="enforce",outcome="denied",rule="quota"}`) == 35
	})
	for series, want := range map[string]float64{
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="quota"}`: 100,
		`sluice_account_requests_total{by="caller",outcome="admitted"}`:         100,
		`sluice_account_requests_total{by="caller",outcome="denied"}`:           35,
		`sluice_envoy_quota_units_total{what="spent"}`:                          116, // with those without a limit
	} {
		if got := n.metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	eventually(t, "the figures have them", func() bool {
		sums := n.figures(url.Values{"rule": {"quota"}, "from": {begin.Add(-time.Minute).Format(time.RFC3339)},
			"to": {time.Now().Add(time.Minute).Format(time.RFC3339)}, "step": {"second"}})
		of := sums.sums()["quota"]
		return of.Allowed == 100 && of.Denied == 35
	})
	n.stop()
	var logged records.Decisions
	for _, line := range linesIn(t, filepath.Join(cfg.DataDir, "decisions")) {
		var e records.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.By == "caller" && e.Rule == "quota" && e.Face == "envoy_quota" {
			logged.Allowed, logged.Denied = logged.Allowed+e.Decisions.Allowed, logged.Denied+e.Decisions.Denied
		}
	}
	if logged != (records.Decisions{Allowed: 100, Denied: 35}) {
		t.Errorf("the decision log has %+v", logged)
	}
}
