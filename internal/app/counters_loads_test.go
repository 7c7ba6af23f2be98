package app

import (
	"net/http"
	"testing"
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
	n.create(`{"name":"elastic","scope":"user","route":"/elastic","algorithm":"fixed_window","limit":1,
		"window_ms":` + year + `,"throttle":"elastic","elastic_percent":10000,"pool":"shop"}`)
}

func TestLoads_AReportOnOneNodeDecidesOnAll(t *testing.T) {
	t.Parallel()
	const request = `{"user":"42","route":"/elastic"}`
	for name, nodes := range map[string][]*node{"shared": standingPair(t, "on").nodes[:], "embedded": {standing(t)}} {
		t.Run(name, func(t *testing.T) {
			a := nodes[0]
			elasticShop(a)
			for _, n := range nodes {
				n.has(1, `{"user":"probe","route":"/elastic","weight":0}`)
			}
			a.check(request)
			for _, n := range nodes {
				if !n.allowed(request) {
					t.Error("denied although the pool has room")
				}
			}
			if status, doc := a.send("PUT", "/ratelimit/pools/shop/load",
				`{"utilization":1,"ttl_ms":600000}`); status != http.StatusNoContent {
				t.Fatalf("report answered %d %v", status, doc)
			}
			if a.allowed(request) {
				t.Error("the node that took the report does not heed it")
			}
			for _, n := range nodes {
				eventually(t, "the report is known", func() bool { return !n.allowed(request) })
			}
		})
	}
}
