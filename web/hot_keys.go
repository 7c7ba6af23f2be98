package web

import (
	"net/http"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

const pathHotKeys = "/console/hot-keys"

// hotKeys shows the busiest buckets of all nodes.
func (s *Server) hotKeys(v *visit) error {
	live := s.deps.Fleet.Live(v.ctx)
	m := view.HotPage{
		Watching: s.deps.Live.Watching || len(live.Hot) > 0, Live: live,
		Hot: live.HotKeys(), Lines: hotLines(s.setNow(), live.Hot),
	}
	return v.page(http.StatusOK, view.HotKeysPage(v.frame("Hot keys", pathHotKeys), m))
}

// hotLines are the rows of a table of busy keys.
func hotLines(set *rules.Set, keys []fleet.HotLive) []view.HotLine {
	out := make([]view.HotLine, len(keys))
	for i := range keys {
		out[i] = hotLine(set, &keys[i])
	}
	return out
}

func hotLine(set *rules.Set, k *fleet.HotLive) view.HotLine {
	l := view.HotLine{Key: k.Key, Rate: k.Rate, Hot: k.Hot, State: k.State, Nodes: k.Nodes}
	if k.Hot {
		l.Since = time.UnixMilli(k.Since)
	}
	if k.RuleID > 0 && set != nil {
		if c := set.Get(k.RuleID); c != nil {
			l.Rule, l.RuleID, l.Mode, l.Link = c.Rule.Name, k.RuleID, c.Rule.HotKeys, keyPath(c.Rule.Name, k.Bucket)
		}
	}
	return l
}

// hotNow are the keys that are hot, the busiest first.
func hotNow(set *rules.Set, keys []fleet.HotLive) []view.HotLine {
	var out []view.HotLine
	for i := range keys {
		if keys[i].Hot {
			out = append(out, hotLine(set, &keys[i]))
		}
	}
	return out
}
