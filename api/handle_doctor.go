package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/doctor"
	"sluice/rules"
	"sluice/rules/match"
)

// doctorPage is the response to GET /ratelimit/doctor.
type doctorPage struct {
	Findings []doctor.Finding `json:"findings"`
	// Since is the first hour of the last week with figures of any of the rules; null if there are none.
	Since *time.Time `json:"since"`
	// Rules is the number of rules that were examined.
	Rules         int    `json:"rules"`
	Partial       string `json:"partial,omitempty"`
	NextPageToken string `json:"next_page_token"`
}

// examine sends what is remarkable about rules in force.
func (s *Server) examine(c echo.Context) error {
	q, err := parseQuery(c, "rule", "page_size", "page_token")
	if err != nil {
		return err
	}
	name, most, after := q.ruleName(), q.pageSize(), q.pageToken()
	if err := q.err(); err != nil {
		return err
	}
	set := s.deps.Checker.Set()
	if set == nil {
		return rules.ErrUnavailable
	}
	d := doctor.Doctor{Stats: s.deps.Stats, Overrides: s.deps.Overrides, Past: s.deps.History, Set: set, Now: s.deps.Now()}
	page := doctorPage{Findings: []doctor.Finding{}}
	if name != "" {
		r := set.Named(name)
		if r == nil {
			return rules.ErrNotFound
		}
		if err := page.add(c.Request().Context(), &d, r); err != nil {
			return err
		}
		return writeJSON(c, http.StatusOK, page)
	}
	for i := range set.Len() {
		r := set.At(i)
		if r.Rule.ID <= after {
			continue
		}
		if page.Rules == most {
			page.NextPageToken = pageToken(set.At(i - 1).Rule.ID)
			break
		}
		if err := page.add(c.Request().Context(), &d, r); err != nil {
			return err
		}
	}
	return writeJSON(c, http.StatusOK, page)
}

// add examines a rule.
func (p *doctorPage) add(ctx context.Context, d *doctor.Doctor, r *match.Compiled) error {
	found, err := d.Rule(ctx, &r.Rule)
	if err != nil {
		return err
	}
	p.Rules++
	p.Findings = append(p.Findings, found.Findings...)
	if !found.Since.IsZero() && (p.Since == nil || found.Since.Before(*p.Since)) {
		p.Since = &found.Since
	}
	if found.Partial != nil {
		p.Partial = oneLine(found.Partial)
	}
	return nil
}
