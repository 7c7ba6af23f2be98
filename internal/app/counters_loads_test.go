package app

import (
	"net/http"
	"testing"

	"sluice/internal/config"
)

// elasticShop gives a node a pool and an elastic rule: 1 a year for each user,
// and above that while the pool has room.
func elasticShop(n *node) {
	n.t.Helper()
	const year = "31536000000"
	if status, doc := n.send("POST", "/ratelimit/pools",
		`{"name":"shop","limit":100,"window_ms":`+year+`}`); status != http.StatusCreated {
		n.t.Fatalf("making the pool answered %d %v", status, doc)
	}
	n.create(`{"name":"elastic","scope":"user","algorithm":"fixed_window","limit":1,"window_ms":` + year +
		`,"throttle":"elastic","elastic_percent":10000,"pool":"shop"}`)
}

func TestLoads_AReportOnOneNodeDecidesOnAll(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Serve{"shared": sharedSettings(t), "embedded": settings(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, cfg)
			elasticShop(a)
			nodes := []*node{a}
			if name == "shared" {
				nodes = append(nodes, start(t, cfg))
			}
			a.check(`{"user":"42"}`)
			for _, n := range nodes {
				if !n.allowed(`{"user":"42"}`) {
					t.Error("denied although the pool has room")
				}
			}
			if status, doc := a.send("PUT", "/ratelimit/pools/shop/load",
				`{"utilization":1,"ttl_ms":600000}`); status != http.StatusNoContent {
				t.Fatalf("report answered %d %v", status, doc)
			}
			if a.allowed(`{"user":"42"}`) {
				t.Error("the node that took the report does not heed it")
			}
			for _, n := range nodes {
				eventually(t, "the report is known", func() bool { return !n.allowed(`{"user":"42"}`) })
			}
		})
	}
}
