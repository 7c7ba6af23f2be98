package app

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// distinct are the messages without repeats. A node that is killed after a message was received and before it has noted
// that leaves it to the next one, which sends it again with the same id.
func distinct(all []receivedAlert) []receivedAlert {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(a receivedAlert) bool {
		again := seen[a.id]
		seen[a.id] = true
		return again
	})
}

// killedEvaluator kills the node that evaluates alerts: another one does so then, and tells each alert once.
func killedEvaluator(t *testing.T, bin string) {
	env := append(fleetEnv(t), "SLUICE_WEBHOOK_ALLOW=127.0.0.1")
	children := []*child{spawn(t, bin, "", env...), spawn(t, bin, "", env...), spawn(t, bin, "", env...)}
	first, r := &node{t: t, url: children[0].url, client: children[0].client, token: children[0].token}, receive(t)
	r.hook(first, `"key_usage"`)
	first.create(`{"name": "charges-per-user", "scope": "user", "limit": 100, "window_ms": 3600000,
		"algorithm": "fixed_window", "notify_percent": [80]}`)
	for _, c := range children {
		eventually(t, "the rule counts", func() bool {
			n := &node{t: t, url: c.url, client: c.client}
			limits, _ := n.check(`{"user": "probe", "weight": 0}`)["limits"].([]any)
			return len(limits) == 1
		})
	}
	evaluator := func() int {
		for i, c := range children {
			if c.metric("sluice_alerts_evaluating") == 1 {
				return i
			}
		}
		return -1
	}
	spend := func(user int) time.Time {
		for i := range 80 {
			children[i%len(children)].check(fmt.Sprintf(`{"user": "%d"}`, user))
		}
		return time.Now()
	}
	arrives := func(want int, at time.Time) {
		t.Helper()
		eventually(t, "the message arrives", func() bool { return len(distinct(r.alerts(t))) >= want })
		t.Logf("the message arrived %s later", distinct(r.alerts(t))[want-1].at.Sub(at))
	}
	eventually(t, "a node evaluates", func() bool { return evaluator() >= 0 })
	arrives(1, spend(1))
	i := evaluator()
	children[i].kill()
	at := time.Now()
	children = append(children[:i], children[i+1:]...)
	spend(2)
	arrives(2, at)
	if evaluator() < 0 {
		t.Error("no node evaluates")
	}
	for i, a := range distinct(r.alerts(t)) {
		if want := fmt.Sprintf("user:%d", i+1); a.Data.Key != want || a.Data.State != "on" {
			t.Errorf("message %d is about %s %s, want %s on", i, a.Data.Key, a.Data.State, want)
		}
	}
}
