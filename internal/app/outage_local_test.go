package app

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// left is what a user has left of the rule, as Redis says.
func (n *node) left(user string) (units float64) {
	n.t.Helper()
	eventually(n.t, "Redis decides", func() bool {
		doc := n.check(fmt.Sprintf(`{"user":%q,"weight":0}`, user))
		units, _ = doc["remaining"].(float64)
		return doc["degraded"] == nil
	})
	return units
}

func TestOutage_LocalStartsWarmDividesAndSettles(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	a, b := start(t, onRedis(t, srv.URL())), start(t, onRedis(t, srv.URL()))
	for _, n := range []*node{a, b} { // each has rules of its own, of the same ids
		n.create(`{"name":"r","scope":"user","limit":100,"window_ms":86400000,"fail_mode":"local"}`)
	}
	eventually(t, "each node knows of the other", func() bool {
		return a.metric("sluice_live_nodes") == 2 && b.metric("sluice_live_nodes") == 2
	})
	eventually(t, "10 are spent through a", func() bool {
		a.check(`{"user":"u","request_id":"warm","weight":10}`)
		return a.left("u") == 90
	})
	srv.Kill()
	eventually(t, "both know", func() bool {
		return a.check(`{"user":"x"}`)["degraded"] != nil && b.check(`{"user":"x"}`)["degraded"] != nil
	})
	admitted := map[*node]int{}
	for _, n := range []*node{a, b} {
		for range 80 {
			if n.allowed(`{"user":"u"}`) {
				admitted[n]++
			}
		}
	}
	if admitted[a] != 40 || admitted[b] != 50 {
		t.Errorf("%d and %d admitted in the outage, want 40 and 50 of 100: 10 had been spent through the first", admitted[a],
			admitted[b])
	}
	if spent, pending := a.metric("sluice_local_spent_units_total"), a.metric("sluice_local_pending_units"); spent < 40 ||
		pending != spent {
		t.Errorf("%v spent, %v of it pending", spent, pending)
	}
	if a.metric("sluice_live_nodes") != 2 {
		t.Error("the number of nodes was forgotten in the outage")
	}

	srv.Restart() // empty: the 10 from before are lost with it
	for _, n := range []*node{a, b} {
		eventually(t, "what was spent here is charged", func() bool { return n.metric("sluice_local_pending_units") == 0 })
	}
	if got := a.left("u"); got != 10 {
		t.Errorf("%v left in Redis, want 10: 90 were admitted in the outage", got)
	}
	for _, n := range []*node{a, b} {
		settled := n.sum(`sluice_local_settled_units_total\{.*\}`)
		if spent := n.metric("sluice_local_spent_units_total"); spent != settled {
			t.Errorf("%v spent, %v settled", spent, settled)
		}
	}
}

// tries puts a question until Redis answers it, as a careful client does, and
// returns whether it was admitted and how often it was asked.
func (n *node) tries(body string) (allowed bool, asked int) {
	n.t.Helper()
	eventually(n.t, "an answer of Redis", func() bool {
		asked++
		doc := n.check(body)
		allowed, _ = doc["allowed"].(bool)
		return doc["degraded"] == nil
	})
	return allowed, asked
}

func TestOutage_LostRepliesChargeOnceWithARequestID(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	url, add, heal := through(t, srv.Addr)
	n := start(t, onRedis(t, url))
	const limit = `"limit":100000,"window_ms":86400000,"fail_mode":"closed"`
	charged := func(key string) int {
		t.Helper()
		left, _ := n.check(fmt.Sprintf(`{"key":%q,"weight":0,%s}`, key, limit))["remaining"].(float64)
		return 100_000 - int(left)
	}
	n.tries(`{"key":"first",` + limit + `}`) // the script is known from here on
	// Each connection breaks after so many bytes of replies: in the middle of one.
	add(`{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":1500}}`)
	admitted, asked := 0, 0
	for i := range 400 {
		ok, times := n.tries(fmt.Sprintf(`{"key":"named",%s,"request_id":"r%d"}`, limit, i))
		if asked += times; ok {
			admitted++
		}
	}
	calls, answered := 400, 0
	for range calls {
		if n.check(`{"key":"unnamed",` + limit + `}`)["degraded"] == nil {
			answered++
		}
	}
	heal()
	eventually(t, "Redis decides", func() bool { return n.check(`{"key":"first",` + limit + `}`)["degraded"] == nil })
	if got := charged("named"); got != admitted || admitted != 400 {
		t.Errorf("with a request id: %d charged, %d admitted", got, admitted)
	}
	if asked <= 400 {
		t.Error("no reply was lost: the test shows nothing")
	}
	if got := charged("unnamed"); got > calls || got < answered {
		t.Errorf("without one: %d charged of %d calls, %d answered", got, calls, answered)
	}
	t.Logf("with an id: 400 admitted, %d asked, %d charged; without: %d calls, %d answered, %d charged",
		asked, charged("named"), calls, answered, charged("unnamed"))
}

func TestOutage_TheLogNamesTheCauseAndWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		begin, end []any
		cause      string
		advice     string
	}{
		{"out of memory", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}, "memory",
			"maxmemory"},
		{"read-only", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}, "read_only", "replica"},
		{"no permission", []any{"ACL", "SETUSER", "default", "-eval", "-evalsha"},
			[]any{"ACL", "SETUSER", "default", "+eval", "+evalsha"}, "auth", "permissions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			n := start(t, onRedis(t, srv.URL()))
			n.modes(1_000_000)
			l := press(n, 5, 5*time.Millisecond, byMode)
			defer l.stop()
			eventually(t, "Redis decides", func() bool { return l.seen("store 200") > 30 })
			c := admin(t, srv)
			if err := c.Do(context.Background(), tt.begin...).Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "fail modes decide", func() bool {
				return l.seen("open 200") > 30 && l.seen("closed 503") > 30 && l.seen("local 200") > 30
			})
			if n.sum(`sluice_degraded_total\{cause="`+tt.cause+`",.*\}`) == 0 {
				t.Errorf("no limit was counted as degraded by %s", tt.cause)
			}
			eventually(t, "the breaker opens", func() bool { return n.sum(`sluice_breaker_opened_total\{.*\}`) > 0 })
			var told []string
			for line := range strings.Lines(n.log.String()) {
				if strings.Contains(line, "circuit breaker of a Redis server opened") {
					told = append(told, line)
				}
			}
			if len(told) != 1 || !strings.Contains(told[0], "cause="+tt.cause) || !strings.Contains(told[0], tt.advice) {
				t.Errorf("told %q", told)
			}
			if err := c.Do(context.Background(), tt.end...).Err(); err != nil {
				t.Fatal(err)
			}
			l.forget()
			eventually(t, "Redis decides again", func() bool { return l.seen("store 200") > 100 })
		})
	}
}
