package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules/match"
)

const (
	hotTable = "hot"
	hotTTL   = 15 * time.Second
	// maxHot is the largest number of busy keys that a node posts.
	maxHot = 50
)

// HotKey is one of the busiest buckets of a node. Like a Request, everyone who can
// read rules may see it.
type HotKey struct {
	// Key is the bucket's display name. Bucket is the name by which it can be found
	// (match.BucketName), "" if the caller sent the limit.
	Key    string `json:"key"`
	Bucket string `json:"bucket,omitempty"`
	// RuleID is the id of its rule, 0 for none.
	RuleID int64 `json:"rule_id,omitempty"`
	limiter.Heat
}

// ShowHot converts a busy key of this node for people: credentials are hashes.
func ShowHot(k limiter.HotKey) HotKey {
	out := HotKey{Key: match.DisplayKey(k.Key), Heat: k.Heat}
	if id, ok := match.RuleID(k.Key); ok {
		out.RuleID, out.Bucket = id, match.BucketName(k.Key)
	}
	return out
}

// HotLive is a busy key of the fleet.
type HotLive struct {
	// HotKey is the entry of the busiest node, but Rate is the sum over all nodes, Hot is true if the key is hot on any
	// node, and Since is the earliest.
	HotKey
	// Nodes are the nodes that posted the key, busiest first.
	Nodes []HotNode
}

// HotNode is the part of one node in a busy key.
type HotNode struct {
	// Address is the address at which the node listens.
	Address string
	limiter.Heat
}

// postedHot is the post of a node about its busiest keys.
type postedHot struct {
	At      int64    `json:"at"`
	Address string   `json:"address"`
	Keys    []HotKey `json:"keys"`
}

// appendHot writes the busiest keys, and once an empty list when there are none.
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
	posted := postedHot{At: now.UnixMilli(), Address: address, Keys: keys}
	return append(out, Entry{Table: hotTable, Field: p.node, Value: jsonOf(posted), TTL: hotTTL})
}

// hotOf merges the posts of the nodes, busiest first. It ignores old posts.
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
	h.Nodes = append(h.Nodes, HotNode{address, k.Heat})
}

// HotKeys is the number of keys that are hot on any node: the number of posted hot keys, or the count of a node that
// has more hot keys than it posts.
func (l *Live) HotKeys() int {
	named, most := 0, 0
	for i := range l.Hot {
		if l.Hot[i].Hot {
			named++
		}
	}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; !n.Silent && !n.Unknown {
			most = max(most, n.HotKeys)
		}
	}
	return max(named, most)
}
