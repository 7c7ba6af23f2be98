package app

import (
	"fmt"
	"net/http"
	"testing"
)

// A change of tiers on one node holds on the other by notification alone, and
// both go on with what was spent.
func TestFleet_ATierChangeIsInForceOnTheOtherNodeByNotification(t *testing.T) {
	t.Parallel()
	p := standingPair(t, "on") // whose polls are too slow to be what is seen here
	a, b := p.nodes[0], p.nodes[1]
	rule := a.create(`{"name":"tiers","scope":"user","route":"/tiers","algorithm":"fixed_window","limit":2,
		"window_ms":86400000,"tiers":{"pro":{"limit":5}}}`)
	left := func(n *node, tier string) any {
		return n.check(fmt.Sprintf(`{"user":"u","route":"/tiers","tier":%q,"weight":0}`, tier))["remaining"]
	}
	eventually(t, "the rule is in force on b", func() bool { return left(b, "pro") == 5.0 })
	for i := range 4 {
		if ![]*node{a, b}[i%2].allowed(`{"user":"u","route":"/tiers","tier":"pro"}`) {
			t.Fatalf("request %d of 4 is denied under a limit of 5", i+1)
		}
	}
	path := fmt.Sprintf("/ratelimit/rules/%v", rule["id"])
	for _, c := range []struct {
		tiers     string
		pro, free any
	}{
		{`{"pro":{"limit":7}}`, 3.0, 0.0},                       // raised
		{`{"pro":{"limit":3}}`, 0.0, 0.0},                       // below what was spent
		{`null`, 0.0, 0.0},                                      // every tier has the rule's own
		{`{"pro":{"unlimited":true}}`, nil, 0.0},                // no limit, no figures
		{`{"pro":{"limit":9},"free":{"limit":6}}`, 5.0, 2.0},    // and nothing was forgotten
		{`{"pro":{"limit":100},"free":{"limit":0}}`, 96.0, 0.0}, // to the last unit
	} {
		if status, doc := a.send("PATCH", path, `{"tiers":`+c.tiers+`}`); status != http.StatusOK {
			t.Fatalf("%s answered %d %v", c.tiers, status, doc)
		}
		eventually(t, "tiers "+c.tiers+" are in force on b",
			func() bool { return left(b, "pro") == c.pro && left(b, "free") == c.free })
		if got := left(a, "pro"); got != c.pro {
			t.Errorf("%s: the writer's node has %v left, want %v", c.tiers, got, c.pro)
		}
	}
}
