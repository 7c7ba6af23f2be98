package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/fleet"
	"sluice/rules"
)

// hotPage is the answer to GET /ratelimit/hot.
type hotPage struct {
	// Enabled: this node looks for hot keys.
	Enabled bool     `json:"enabled"`
	HotKeys []hotKey `json:"hot_keys"`
}

// hotKey is one of the busiest buckets of a node, or of all.
type hotKey struct {
	// Key is the bucket's name for people; credentials show as hashes.
	Key string `json:"key"`
	// Rule is its rule's name, null if it is not in force or there is none.
	Rule *string `json:"rule"`
	// Rate is in checks a second on Nodes nodes.
	Rate  int64  `json:"rate"`
	Hot   bool   `json:"hot"`
	State string `json:"state"`
	// Since is when it turned hot, null if it is not.
	Since *time.Time `json:"since"`
	Nodes int        `json:"nodes"`
}

// Which nodes GET /ratelimit/hot is about.
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
			page.HotKeys = append(page.HotKeys, hotLine(set, &keys[i].HotKey, len(keys[i].Nodes)))
		}
	case s.deps.Hot != nil:
		for _, k := range s.deps.Hot(most) {
			shown := fleet.ShowHot(k)
			page.HotKeys = append(page.HotKeys, hotLine(set, &shown, 1))
		}
	}
	return writeJSON(c, http.StatusOK, page)
}

// errNoFigures says that what the nodes share cannot be read.
var errNoFigures error = reply.StoreUnavailable.Problem("The hot keys of the other nodes are unavailable. Omit nodes=all to get the hot keys of this node.").With("Retry-After", "1")

// hotLine shows a busy key that so many nodes are asked about.
func hotLine(set *rules.Set, k *fleet.HotKey, nodes int) hotKey {
	out := hotKey{Key: k.Key, Rate: k.Rate, Hot: k.Hot, State: k.State, Nodes: nodes}
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
