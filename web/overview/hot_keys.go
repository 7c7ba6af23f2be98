package overview

import (
	"net/http"

	"sluice/internal/history"
	"sluice/rules/match"
	"sluice/web/kit"
	"sluice/web/view"
)

// hotKeys shows the busiest keys of all nodes.
func (p *Pages) hotKeys(v *kit.Visit) error {
	live := p.Fleet.Live(v.Ctx)
	m := HotPage{
		Watching: p.Watching || len(live.Hot) > 0, Live: live,
		Hot: live.HotKeys(), Lines: hotLines(p.Sets.Load(), live.Hot, false),
	}
	return v.Page(http.StatusOK, hotKeysPage(v.Frame("Hot keys", kit.PathHotKeys), m))
}

// hotLines returns the rows of busy keys, busiest first, or only the rows of hot keys.
func hotLines(set *match.Set, keys []history.HotLive, onlyHot bool) []view.HotLine {
	var out []view.HotLine
	for i := range keys {
		if keys[i].Hot || !onlyHot {
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
	Live history.Live
}
