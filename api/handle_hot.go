package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/history"
	"sluice/rules/match"
)

// hotPage is the response to GET /ratelimit/hot.
type hotPage struct {
	// Enabled is true if this node detects hot keys.
	Enabled bool     `json:"enabled"`
	HotKeys []hotKey `json:"hot_keys"`
}

// hotKey is one of the busiest buckets of one node or of all nodes.
type hotKey struct {
	// Key is the displayed name of the bucket; credentials appear as hashes.
	Key string `json:"key"`
	// Rule is the name of the rule; null if there is none or it is not in force.
	Rule *string `json:"rule"`
	// Rate is the number of checks per second on Nodes nodes.
	Rate  int64  `json:"rate"`
	Hot   bool   `json:"hot"`
	State string `json:"state"`
	// Since is when the key became hot; null if it is not hot.
	Since *time.Time `json:"since"`
	Nodes int        `json:"nodes"`
}

// The nodes that GET /ratelimit/hot covers.
const (
	hotThis = "this"
	hotAll  = "all"
)

func (s *Server) hot(c echo.Context) error {
	q, err := parseQuery(c, "page_size", "nodes")
	if err != nil {
		return err
	}
	most, nodes := q.pageSize(), q.oneOf("nodes", hotThis, hotAll)
	if err := q.err(); err != nil {
		return err
	}
	page := hotPage{Enabled: s.deps.Hot != nil, HotKeys: []hotKey{}}
	set := s.deps.Checker.Set()
	switch {
	case nodes == hotAll && s.deps.HotEverywhere != nil:
		keys, err := s.deps.HotEverywhere(c.Request().Context())
		if err != nil {
			s.log.Warn("reading the hot keys of all nodes failed", "error", err)
			return errNoFigures
		}
		for i := range keys[:min(most, len(keys))] {
			page.HotKeys = append(page.HotKeys, hotKeyOf(set, &keys[i].HotKey, len(keys[i].Nodes)))
		}
	case s.deps.Hot != nil:
		for _, k := range s.deps.Hot(most) {
			shown := history.ShowHot(k)
			page.HotKeys = append(page.HotKeys, hotKeyOf(set, &shown, 1))
		}
	}
	return writeJSON(c, http.StatusOK, page)
}

// errNoFigures means that the figures of the other nodes are unavailable.
var errNoFigures error = reply.StoreUnavailable.Problem(
	"The hot keys of the other nodes are unavailable. Omit nodes=all to get the hot keys of this node.").With(
	"Retry-After", "1")

// hotKeyOf converts a key that is busy on that many nodes.
func hotKeyOf(set *match.Set, k *history.HotKey, nodes int) hotKey {
	out := hotKey{Key: k.Key, Rate: k.Rate, Hot: k.Hot, State: k.State.String(), Nodes: nodes}
	if k.RuleID > 0 && set != nil {
		if r := set.Get(k.RuleID); r != nil {
			out.Rule = &r.Rule.Name
		}
	}
	if k.Hot {
		since := time.UnixMilli(k.Since).UTC()
		out.Since = &since
	}
	return out
}
