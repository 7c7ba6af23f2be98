package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/fleet"
	"sluice/limiter"
)

// hotNode is a node with busy keys.
func hotNode(id string, b fleet.Board, c *clock, keys *[]fleet.HotKey) *fleet.Publisher {
	return fleet.NewPublisher(fleet.PublisherOptions{
		Recorder: fleet.NewRecorder(), Board: b, Now: c.now,
		Status: func() fleet.Status {
			hot := 0
			for _, k := range *keys {
				if k.Hot {
					hot++
				}
			}
			return fleet.Status{ID: id, Address: id + ":8080", HotKeys: hot}
		},
		Hot: func(most int) []fleet.HotKey { return (*keys)[:min(most, len(*keys))] },
	})
}

func TestHot_OneKeyOfSeveralNodesIsOneLine(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			one := []fleet.HotKey{
				{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 3000, Hot: true, State: limiter.HotLeased, Since: 5000}},
				{Key: "user:42", Bucket: "user:42", RuleID: 8, Heat: limiter.Heat{Rate: 10}},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-one", RuleID: 9, Heat: limiter.Heat{Rate: 9}},
			}
			two := []fleet.HotKey{
				{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 4000, Hot: true, State: limiter.HotSharded, Since: 4000}},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-two", RuleID: 9, Heat: limiter.Heat{Rate: 8}},
			}
			a, b := hotNode("a", board, c, &one), hotNode("b", board, c, &two)
			reader := fleet.NewReader(board, c.now)
			a.Post(t.Context())
			b.Post(t.Context())
			live := reader.Live(t.Context())
			want := []fleet.HotLive{
				{HotKey: fleet.HotKey{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 7000, Hot: true, State: limiter.HotSharded, Since: 4000}},
					Nodes: []fleet.HotNode{{"b:8080", two[0].Heat}, {"a:8080", one[0].Heat}}},
				{HotKey: one[1], Nodes: []fleet.HotNode{{"a:8080", one[1].Heat}}},
				{HotKey: one[2], Nodes: []fleet.HotNode{{"a:8080", one[2].Heat}}},
				{HotKey: two[1], Nodes: []fleet.HotNode{{"b:8080", two[1].Heat}}},
			}
			if diff := cmp.Diff(want, live.Hot); diff != "" {
				t.Error(diff)
			}
			if n := live.HotKeys(); n != 1 {
				t.Errorf("%d hot keys, want the one", n)
			}
			one = nil // as if nobody asked any more
			c.add(2 * time.Second)
			a.Post(t.Context())
			b.Post(t.Context())
			if live := reader.Live(t.Context()); len(live.Hot) != 2 || live.Hot[0].Rate != 4000 {
				t.Errorf("after the first node cooled down: %+v", live.Hot)
			}
			c.add(6 * time.Second) // and the second one fell silent
			a.Post(t.Context())
			if live := reader.Live(t.Context()); len(live.Hot) != 0 || live.HotKeys() != 0 {
				t.Errorf("what a silent node said still counts: %+v", live.Hot)
			}
		})
	}
}

func TestHot_IsBoundedAndLeavesWithTheNode(t *testing.T) {
	c := newClock()
	board := fleet.NewMemory(c.now)
	many := make([]fleet.HotKey, 500)
	for i := range many {
		many[i] = fleet.HotKey{Key: "user:" + string(rune('a'+i)), RuleID: int64(i),
			Heat: limiter.Heat{Rate: 1000, Hot: true}}
	}
	n := hotNode("a", board, c, &many)
	n.Post(t.Context())
	reader := fleet.NewReader(board, c.now)
	if live := reader.Live(t.Context()); len(live.Hot) != 50 || live.HotKeys() != 500 {
		t.Errorf("%d are named of %d", len(live.Hot), live.HotKeys())
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	n.Run(ctx)
	c.add(2 * time.Second)
	if live := reader.Live(t.Context()); len(live.Hot) != 0 {
		t.Errorf("%d keys of a node that left", len(live.Hot))
	}
}
