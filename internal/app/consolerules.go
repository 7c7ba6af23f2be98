package app

import (
	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/web"
)

// editing gives the console what it needs to edit rules.
func editing(d *web.Deps, cfg *config.Serve, db *database.DB, reader *fleet.Reader) {
	d.Writer, d.Bulk, d.History, d.Denials = db, db, db, reader
	style := reply.HeaderStyle{ResetDelta: cfg.ResetHeader == "delta"}
	d.Headers = func(rule string, l limiter.Limit, decided limiter.Decision, at int64) []web.Header {
		return headersOf(style, rule, l, decided, at)
	}
}

// headersOf are the headers of an answer that one limit of one rule gave.
func headersOf(style reply.HeaderStyle, rule string, l limiter.Limit, decided limiter.Decision, at int64) []web.Header {
	a := decide.Answer{Verdict: decide.Allowed, At: at, Limits: []decide.LimitAnswer{{Rule: rule, Limit: l, Decision: decided, Known: true}}}
	if !decided.Allowed {
		a.Verdict = decide.Denied
	}
	var out []web.Header
	style.Headers(&a, nil, func(name string, value []byte) {
		out = append(out, web.Header{Name: name, Value: string(value)})
	})
	return out
}

var (
	_ web.RuleWriter    = (*database.DB)(nil)
	_ web.RuleHistory   = (*database.DB)(nil)
	_ web.RuleBulk      = (*database.DB)(nil)
	_ web.RecentDenials = (*fleet.Reader)(nil)
)
