package view

import (
	"sluice/internal/history"
	"sluice/rules/match"
)

// HotLine is a row of a table of hot keys.
type HotLine struct {
	*history.HotLive
	// Rule is empty if no rule in force has the key. Mode is the rule's hot-key mode, Link the page of the key.
	Rule, Mode, Link string
}

// HotLineOf is the row of a key, with its rule in a set.
func HotLineOf(set *match.Set, k *history.HotLive) HotLine {
	l := HotLine{HotLive: k}
	if k.RuleID > 0 && set != nil {
		if c := set.Get(k.RuleID); c != nil {
			l.Rule, l.Mode, l.Link = c.Rule.Name, c.Rule.HotKeys, KeyLink(c.Rule.Name, k.Bucket)
		}
	}
	return l
}
