package app

import (
	"context"

	"sluice/api"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
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
				out = append(out, postedKey(k))
			}
		}
		return out
	}
}

// postedKey is a busy key as people may see it: credentials are hashes.
func postedKey(k limiter.HotKey) fleet.HotKey {
	out := fleet.HotKey{Key: rules.DisplayKey(k.Key), Rate: k.Rate, Hot: k.Hot, State: k.State.String()}
	if id, ok := rules.RuleID(k.Key); ok {
		out.RuleID, out.Bucket = id, rules.BucketName(k.Key)
	}
	if k.Hot {
		out.Since = k.Since
	}
	return out
}

// hotEverywhere are the busiest keys of all nodes, for the API.
func (f *figures) hotEverywhere(ctx context.Context) ([]api.HotEverywhere, error) {
	live := f.reader.Live(ctx)
	if live.Err != nil {
		return nil, live.Err
	}
	out := make([]api.HotEverywhere, len(live.Hot))
	for i := range live.Hot {
		h := &live.Hot[i]
		out[i] = api.HotEverywhere{Key: h.Key, RuleID: h.RuleID, Rate: h.Rate, Hot: h.Hot, State: h.State, Since: h.Since, Nodes: len(h.Nodes)}
	}
	return out, nil
}
