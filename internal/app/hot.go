package app

import (
	"context"

	"sluice/internal/fleet"
)

// looked is how many of the busiest buckets are looked at for hot ones, which
// are the busiest.
const looked = 1000

// hotKeys is how many keys are hot on this node.
func (c *counters) hotKeys() int {
	n := 0
	if c.hot != nil {
		for _, k := range c.hot(looked) {
			if k.Hot {
				n++
			}
		}
	}
	return n
}

// hot is what this node tells the others about its busiest keys; nil where nobody
// looks for them.
func (f *figures) hot() func(most int) []fleet.HotKey {
	if f.counters.hot == nil {
		return nil
	}
	return func(most int) []fleet.HotKey {
		keys := f.counters.hot(most)
		out := make([]fleet.HotKey, 0, len(keys))
		for _, k := range keys {
			if k.Rate > 0 || k.Hot {
				out = append(out, fleet.ShowHot(k))
			}
		}
		return out
	}
}

// hotEverywhere are the busiest keys of all nodes, for the API.
func (f *figures) hotEverywhere(ctx context.Context) ([]fleet.HotLive, error) {
	live := f.reader.Live(ctx)
	return live.Hot, live.Err
}
