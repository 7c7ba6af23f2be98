package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules"
)

const (
	hotTable = "hot"
	hotTTL   = 15 * time.Second
	// maxHot bounds the busy keys that a node posts, those asked about most.
	maxHot = 50
)

// HotKey is a bucket that a node is asked about more than about others. Like a
// Denial it may be shown to whoever may read rules.
type HotKey struct {
	// Key is the bucket's display name, Bucket its name by which it can be found
	// again (rules.BucketName), "" where the caller brought the limit.
	Key    string `json:"key"`
	Bucket string `json:"bucket,omitempty"`
	// RuleID is its rule's, 0 for none.
	RuleID int64 `json:"rule_id,omitempty"`
	// Rate is in checks a second.
	Rate int64 `json:"rate"`
	// Hot: it passed the rate from which keys are called hot. Since is when, ms
	// since the epoch, 0 if it is not.
	Hot   bool  `json:"hot,omitempty"`
	Since int64 `json:"since,omitempty"`
	// State is how it is served: exact, leased or sharded.
	State string `json:"state"`
}

// ShowHot is a busy key of this node as people may see it: credentials are hashes.
func ShowHot(k limiter.HotKey) HotKey {
	out := HotKey{Key: rules.DisplayKey(k.Key), Rate: k.Rate, Hot: k.Hot, State: k.State.String()}
	if id, ok := rules.RuleID(k.Key); ok {
		out.RuleID, out.Bucket = id, rules.BucketName(k.Key)
	}
	if k.Hot {
		out.Since = k.Since
	}
	return out
}

// HotLive is a busy key of the fleet.
type HotLive struct {
	// HotKey is as the node says that is asked about it most, but Rate is of all
	// nodes together, Hot if it is so on any, Since the earliest.
	HotKey
	// Nodes are those that are asked about it much, the busiest first.
	Nodes []HotNode
}

// HotNode is a node's part in a busy key.
type HotNode struct {
	// Address is where the node listens.
	Address string
	Rate    int64
	Hot     bool
	State   string
}

// postedHot is what a node posts about its busiest keys.
type postedHot struct {
	At      int64    `json:"at"`
	Address string   `json:"address"`
	Keys    []HotKey `json:"keys"`
}

// appendHot writes the busiest keys, and once that there are none any more.
func (p *Publisher) appendHot(out []Entry, now time.Time, address string) []Entry {
	if p.opt.Hot == nil {
		return out
	}
	keys := p.opt.Hot(maxHot)
	if len(keys) == 0 && p.cold {
		return out
	}
	p.cold = len(keys) == 0
	keys = keys[:min(len(keys), maxHot)]
	return append(out, Entry{Table: hotTable, Field: p.node, Value: jsonOf(postedHot{At: now.UnixMilli(), Address: address, Keys: keys}), TTL: hotTTL})
}

// hotOf merges what the nodes posted, the busiest first. What a node posted too
// long ago counts no more.
func hotOf(fields map[string]string, now time.Time) []HotLive {
	type name struct {
		rule int64
		key  string
	}
	merged := map[name]*HotLive{}
	for _, text := range fields {
		var posted postedHot
		if json.Unmarshal([]byte(text), &posted) != nil || now.Sub(time.UnixMilli(posted.At)) > silentAfter {
			continue
		}
		for _, k := range posted.Keys {
			id := name{k.RuleID, cmp.Or(k.Bucket, k.Key)}
			h := merged[id]
			if h == nil {
				h = &HotLive{HotKey: HotKey{Key: k.Key, Bucket: k.Bucket, RuleID: k.RuleID}}
				merged[id] = h
			}
			h.add(k, posted.Address)
		}
	}
	out := make([]HotLive, 0, len(merged))
	for _, h := range merged {
		slices.SortFunc(h.Nodes, func(a, b HotNode) int {
			return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Address, b.Address))
		})
		h.State = h.Nodes[0].State
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b HotLive) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Key, b.Key))
	})
	return out
}

func (h *HotLive) add(k HotKey, address string) {
	h.Rate += k.Rate
	h.Hot = h.Hot || k.Hot
	if k.Since > 0 && (h.Since == 0 || k.Since < h.Since) {
		h.Since = k.Since
	}
	h.Nodes = append(h.Nodes, HotNode{Address: address, Rate: k.Rate, Hot: k.Hot, State: k.State})
}

// HotKeys is how many keys are hot on any node: those that are named, or where a
// node has more than it names, as many as that node has.
func (l *Live) HotKeys() int {
	named, most := 0, 0
	for i := range l.Hot {
		if l.Hot[i].Hot {
			named++
		}
	}
	for i := range l.Nodes {
		if !l.Nodes[i].Silent {
			most = max(most, l.Nodes[i].HotKeys)
		}
	}
	return max(named, most)
}
