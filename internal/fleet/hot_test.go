package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/fleet"
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
				{Key: "user:42", Bucket: "user:42", RuleID: 7, Rate: 3000, Hot: true, State: "leased", Since: 5000},
				{Key: "user:42", Bucket: "user:42", RuleID: 8, Rate: 10, State: "exact"},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-one", RuleID: 9, Rate: 9, State: "exact"},
			}
			two := []fleet.HotKey{
				{Key: "user:42", Bucket: "user:42", RuleID: 7, Rate: 4000, Hot: true, State: "sharded", Since: 4000},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-two", RuleID: 9, Rate: 8, State: "exact"},
			}
			a, b := hotNode("a", board, c, &one), hotNode("b", board, c, &two)
			reader := fleet.NewReader(board, c.now)
			a.Post(t.Context())
			b.Post(t.Context())
			live := reader.Live(t.Context())
			want := []fleet.HotLive{
				{HotKey: fleet.HotKey{Key: "user:42", Bucket: "user:42", RuleID: 7, Rate: 7000, Hot: true, State: "sharded",
					Since: 4000}, Nodes: []fleet.HotNode{{"b:8080", 4000, true, "sharded"}, {"a:8080", 3000, true, "leased"}}},
				{HotKey: one[1], Nodes: []fleet.HotNode{{"a:8080", 10, false, "exact"}}},
				{HotKey: one[2], Nodes: []fleet.HotNode{{"a:8080", 9, false, "exact"}}},
				{HotKey: two[1], Nodes: []fleet.HotNode{{"b:8080", 8, false, "exact"}}},
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
		many[i] = fleet.HotKey{Key: "user:" + string(rune('a'+i)), RuleID: int64(i), Rate: 1000, Hot: true, State: "exact"}
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
