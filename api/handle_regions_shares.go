package api

import (
	"context"
	"time"

	"sluice/internal/region/share"
	"sluice/internal/region/sharing"
)

// Shares answers other regions about limits that are divided among them.
type Shares interface {
	Receive(ctx context.Context, body []byte) (*share.Answer, error)
	Overview() sharing.Overview
}

// regionShares are the limits that are divided, as this node knows them.
type regionShares struct {
	IntervalMS int64             `json:"interval_ms"`
	Lost       bool              `json:"lost"`
	Failing    bool              `json:"failing"`
	Rules      []regionRuleShare `json:"rules"`
}

type regionRuleShare struct {
	Rule    string        `json:"rule"`
	Limit   int64         `json:"limit"`
	Share   int64         `json:"share"`
	Unused  int64         `json:"unused"`
	Regions []regionShare `json:"regions"`
}

type regionShare struct {
	Region   string     `json:"region"`
	Own      int64      `json:"own"`
	Asked    *int64     `json:"asked"`
	Lent     int64      `json:"lent"`
	Borrowed int64      `json:"borrowed"`
	Until    *time.Time `json:"until"`
}

// regionSharesOf describes the shares, nil without regions.
func (s *Server) regionSharesOf() *regionShares {
	if s.deps.Shares == nil {
		return nil
	}
	o := s.deps.Shares.Overview()
	out := &regionShares{IntervalMS: o.Interval.Milliseconds(), Lost: o.Lost, Failing: o.Failing,
		Rules: []regionRuleShare{}}
	for _, r := range o.Rules {
		rule := regionRuleShare{Rule: r.Rule, Limit: r.Limit, Share: r.Share, Unused: r.Unused}
		for _, g := range r.Regions {
			in := regionShare{Region: g.Region, Own: g.Own, Lent: g.Lent, Borrowed: g.Borrowed, Until: timeOrNull(g.Until)}
			if g.Heard {
				in.Asked = &g.Asked
			}
			rule.Regions = append(rule.Regions, in)
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}
