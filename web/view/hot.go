package view

import (
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
)

// HotLine is a row of a table of hot keys.
type HotLine struct {
	Key string
	// Rule is empty if no rule in force has the key. Mode is the rule's hot-key mode, Link the page of the key.
	Rule   string
	RuleID int64
	Mode   string
	Link   string
	// Rate is in checks per second on all Nodes.
	Rate  int64
	Nodes []fleet.HotNode
	Hot   bool
	State string
	Since time.Time
}

// HotLineOf is the row of a key, with its rule in a set.
func HotLineOf(set *rules.Set, k *fleet.HotLive) HotLine {
	l := HotLine{Key: k.Key, Rate: k.Rate, Hot: k.Hot, State: k.State, Nodes: k.Nodes}
	if k.Hot {
		l.Since = time.UnixMilli(k.Since)
	}
	if k.RuleID > 0 && set != nil {
		if c := set.Get(k.RuleID); c != nil {
			l.Rule, l.RuleID, l.Mode, l.Link = c.Rule.Name, k.RuleID, c.Rule.HotKeys, KeyLink(c.Rule.Name, k.Bucket)
		}
	}
	return l
}
