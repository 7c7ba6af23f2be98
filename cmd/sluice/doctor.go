package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/rules/chars"
)

type rulesDoctorCmd struct {
	config.Client `embed:""`
	Rule          string `name:"rule" placeholder:"NAME" help:"Only this rule."`
	JSON          bool   `name:"json" help:"Print the findings as a JSON array."`
}

// finding is a finding of GET /ratelimit/doctor.
type finding struct {
	Rule    string           `json:"rule"`
	Finding string           `json:"finding"`
	Text    string           `json:"text"`
	Numbers map[string]int64 `json:"numbers"`
	Since   time.Time        `json:"since"`
	Link    string           `json:"link"`
}

// Run prints the findings about the rules of a server, page by page.
func (c *rulesDoctorCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	query := url.Values{}
	if c.Rule != "" {
		query.Set("rule", c.Rule)
	}
	found, examined := []finding{}, 0
	var since *time.Time
	partial := ""
	for more := true; more; {
		raw, err := server.Do(p.ctx, http.MethodGet, "/ratelimit/doctor?"+query.Encode(), "", nil)
		if err != nil {
			return err
		}
		var page struct {
			Findings []finding  `json:"findings"`
			Since    *time.Time `json:"since"`
			Rules    int        `json:"rules"`
			Partial  string     `json:"partial"`
			Next     string     `json:"next_page_token"`
		}
		if err := readAnswer(raw, &page); err != nil {
			return err
		}
		found, examined = append(found, page.Findings...), examined+page.Rules
		if page.Since != nil && (since == nil || page.Since.Before(*since)) {
			since = page.Since
		}
		if page.Partial != "" {
			partial = page.Partial
		}
		query.Set("page_token", page.Next)
		more = page.Next != ""
	}
	for i := range found {
		found[i].Link = strings.TrimRight(c.Server, "/") + found[i].Link
	}
	if partial != "" {
		fmt.Fprintf(p.errs, "warning: %s; rules without these figures were not examined\n", partial)
	}
	if c.JSON {
		e := json.NewEncoder(p.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	for _, f := range found {
		fmt.Fprintf(p.out, "%s: %s, since %s\n  %s\n  %s\n", f.Rule, f.Finding, f.Since.UTC().Format(time.RFC3339),
			chars.Shown(f.Text), f.Link)
	}
	known := "no figures of the last week"
	if since != nil {
		known = "figures since " + since.UTC().Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(p.out, "rules: %d, findings: %d, %s\n", examined, len(found), known)
	return err
}
