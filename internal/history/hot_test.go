package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/history"
	"sluice/limiter"
)

// hotNode is a node with busy keys.
func hotNode(id string, b history.Board, c *clock, keys *[]history.HotKey) *history.Publisher {
	return history.NewPublisher(history.PublisherOptions{
		Recorder: history.NewRecorder(), Board: b, Now: c.now,
		Status: func() history.Status {
			hot := 0
			for _, k := range *keys {
				if k.Hot {
					hot++
				}
			}
			return history.Status{ID: id, Address: id + ":8080", HotKeys: hot}
		},
		Hot: func(most int) []history.HotKey { return (*keys)[:min(most, len(*keys))] },
	})
}

func TestHot_OneKeyOfSeveralNodesIsOneLine(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			one := []history.HotKey{
				{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 3000, Hot: true, State: limiter.HotLeased, Since: 5000}},
				{Key: "user:42", Bucket: "user:42", RuleID: 8, Heat: limiter.Heat{Rate: 10}},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-one", RuleID: 9, Heat: limiter.Heat{Rate: 9}},
			}
			two := []history.HotKey{
				{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 4000, Hot: true, State: limiter.HotSharded, Since: 4000}},
				{Key: "apikey:sha256:aaaa", Bucket: "apikey:sha256:aaaa-two", RuleID: 9, Heat: limiter.Heat{Rate: 8}},
			}
			a, b := hotNode("a", board, c, &one), hotNode("b", board, c, &two)
			reader := history.NewLiveReader(board, c.now)
			a.Post(t.Context())
			b.Post(t.Context())
			live := reader.Live(t.Context())
			want := []history.HotLive{
				{HotKey: history.HotKey{Key: "user:42", Bucket: "user:42", RuleID: 7,
					Heat: limiter.Heat{Rate: 7000, Hot: true, State: limiter.HotSharded, Since: 4000}},
					Nodes: []history.HotNode{{"b:8080", two[0].Heat}, {"a:8080", one[0].Heat}}},
				{HotKey: one[1], Nodes: []history.HotNode{{"a:8080", one[1].Heat}}},
				{HotKey: one[2], Nodes: []history.HotNode{{"a:8080", one[2].Heat}}},
				{HotKey: two[1], Nodes: []history.HotNode{{"b:8080", two[1].Heat}}},
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
	board := history.NewMemory(c.now)
	many := make([]history.HotKey, 500)
	for i := range many {
		many[i] = history.HotKey{Key: "user:" + string(rune('a'+i)), RuleID: int64(i),
			Heat: limiter.Heat{Rate: 1000, Hot: true}}
	}
	n := hotNode("a", board, c, &many)
	n.Post(t.Context())
	reader := history.NewLiveReader(board, c.now)
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
