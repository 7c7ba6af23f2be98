package app

import (
	"fmt"
	"net/http"
	"testing"
)

const (
	mails    = `{"name":"mails","scope":"user","route":"/mails","limit":1,"window_ms":100,"over_limit":"defer"}`
	sendMail = `{"user":"a","route":"/mails","payload":"mail %d"}`
)

// deferMails sends until n are deferred and gives their tickets.
func (n *node) deferMails(count int) map[string]string {
	n.t.Helper()
	tickets := map[string]string{}
	for i := 0; len(tickets) < count; i++ {
		if i > 100*count {
			n.t.Fatal("nothing is deferred")
		}
		payload := len(tickets)
		if doc := n.check(fmt.Sprintf(sendMail, payload)); doc["status"] == float64(202) {
			tickets[doc["ticket"].(string)] = fmt.Sprint("mail ", payload)
		}
	}
	return tickets
}

// collect releases and acknowledges until every ticket has been seen, each once
// and in order.
func collect(t *testing.T, nodes []*node, tickets map[string]string) {
	t.Helper()
	next := 0
	eventually(t, "every deferred request is released", func() bool {
		n := nodes[next%len(nodes)]
		status, doc := n.send(http.MethodGet, "/ratelimit/deferred/mails?max=10", "")
		if status != http.StatusOK {
			t.Fatalf("release answered %d: %v", status, doc)
		}
		for _, v := range doc["items"].([]any) {
			it := v.(map[string]any)
			want := fmt.Sprint("mail ", next)
			if it["payload"] != want || tickets[it["ticket"].(string)] != want {
				t.Fatalf("released %v, want %s", it, want)
			}
			next++
			if status, doc := n.send(http.MethodPost, "/ratelimit/deferred/mails/ack",
				fmt.Sprintf(`{"tickets":[%q]}`, it["ticket"])); status != http.StatusOK || doc["acked"] != float64(1) {
				t.Fatalf("ack answered %d: %v", status, doc)
			}
		}
		return next == len(tickets)
	})
}

func TestDeferred_OutlivesARestartEmbedded(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	n.create(mails)
	tickets := n.deferMails(3)
	n.stop()
	n = start(t, cfg)
	collect(t, []*node{n}, tickets)
	if got := n.sum(`sluice_deferred_acked_total{rule="mails"}`); got != 3 {
		t.Errorf("%v acknowledged, want 3", got)
	}
	_, doc := n.send(http.MethodGet, "/ratelimit/deferred", "")
	if q := doc["queues"].([]any)[0].(map[string]any); q["depth"] != float64(0) || q["max_items"] != float64(10_000) {
		t.Errorf("afterwards %v", q)
	}
}

func TestDeferred_IsSharedByNodesOnRedis(t *testing.T) {
	t.Parallel()
	p := standingPair(t, "on")
	a, b := p.nodes[0], p.nodes[1]
	a.create(mails)
	b.has(1, `{"user":"probe","route":"/mails","weight":0}`)
	collect(t, []*node{b, a}, a.deferMails(3))
}
