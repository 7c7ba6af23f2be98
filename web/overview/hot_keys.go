package overview

import (
	"net/http"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// hotKeys shows the busiest keys of all nodes.
func (p *Pages) hotKeys(v *kit.Visit) error {
	live := p.Fleet.Live(v.Ctx)
	m := HotPage{
		Watching: p.Watching || len(live.Hot) > 0, Live: live,
		Hot: live.HotKeys(), Lines: hotLines(p.Sets.Load(), live.Hot),
	}
	return v.Page(http.StatusOK, hotKeysPage(v.Frame("Hot keys", kit.PathHotKeys), m))
}

// hotLines are the rows of a table of busy keys.
func hotLines(set *rules.Set, keys []fleet.HotLive) []view.HotLine {
	out := make([]view.HotLine, len(keys))
	for i := range keys {
		out[i] = view.HotLineOf(set, &keys[i])
	}
	return out
}

// hotOnly are the hot keys, busiest first.
func hotOnly(set *rules.Set, keys []fleet.HotLive) []view.HotLine {
	var out []view.HotLine
	for i := range keys {
		if keys[i].Hot {
			out = append(out, view.HotLineOf(set, &keys[i]))
		}
	}
	return out
}

// HotPage is the page of hot keys.
type HotPage struct {
	// Watching means that a node detects hot keys.
	Watching bool
	Lines    []view.HotLine
	// Hot is how many keys are hot on any node.
	Hot int
	// Live tells which nodes the metrics are from, and when.
	Live fleet.Live
}
