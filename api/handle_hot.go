package api

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/limiter"
	"sluice/rules"
)

// hotPage is the answer to GET /ratelimit/hot.
type hotPage struct {
	// Enabled: this node looks for hot keys.
	Enabled bool     `json:"enabled"`
	HotKeys []hotKey `json:"hot_keys"`
}

// hotKey is one of a node's busiest buckets.
type hotKey struct {
	// Key is the bucket's name for people; credentials show as hashes.
	Key string `json:"key"`
	// Rule is its rule's name, null if it is not in force or there is none.
	Rule *string `json:"rule"`
	// Rate is in checks a second on this node.
	Rate  int64  `json:"rate"`
	Hot   bool   `json:"hot"`
	State string `json:"state"`
	// Since is when it turned hot, null if it is not.
	Since *time.Time `json:"since"`
}

func (s *Server) hot(c echo.Context) error {
	q, err := parseQuery(c, "page_size")
	if err != nil {
		return err
	}
	most := q.pageSize()
	if err := q.err(); err != nil {
		return err
	}
	page := hotPage{Enabled: s.deps.Hot != nil, HotKeys: []hotKey{}}
	if s.deps.Hot != nil {
		set := s.deps.Checker.opt.Sets.Load()
		for _, k := range s.deps.Hot(most) {
			page.HotKeys = append(page.HotKeys, showHot(set, k))
		}
	}
	return writeJSON(c, http.StatusOK, page)
}

func showHot(set *rules.Set, k limiter.HotKey) hotKey {
	out := hotKey{Key: rules.DisplayKey(k.Key), Rate: k.Rate, Hot: k.Hot, State: k.State.String()}
	if id, ok := rules.RuleID(k.Key); ok && set != nil {
		if r := set.Get(id); r != nil {
			out.Rule = &r.Rule.Name
		}
	}
	if k.Hot {
		since := time.UnixMilli(k.Since).UTC()
		out.Since = &since
	}
	return out
}
