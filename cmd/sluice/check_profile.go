package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"sluice/api/client"
	"sluice/rules/chars"
	"sluice/rules/facts"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// readByProfile fetches the profile, reads the request as a gateway with that profile does, and returns the question.
// If the profile decides without a check, readByProfile prints the decision and returns no question, and errNo for a
// denial.
func (c *checkCmd) readByProfile(p *process, server *client.Client) (question map[string]any, err error) {
	request, err := c.request()
	if err != nil {
		return nil, err
	}
	raw, err := server.Do(p.ctx, http.MethodGet, "/ratelimit/profiles/"+url.PathEscape(c.Profile), "", nil)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", c.Profile, err)
	}
	var profile profile.Profile
	if err := json.Unmarshal(raw, &profile); err != nil {
		return nil, fmt.Errorf("the server's response is not valid: %w", err)
	}
	reader, err := facts.New(&profile)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", c.Profile, err)
	}
	var read facts.Facts
	if err := reader.Read(request, &read); err != nil {
		return nil, fmt.Errorf("profile %s: %w", c.Profile, err)
	}
	if c.Weight == nil {
		c.Weight = &read.Weight
	}
	if c.Explain && !c.JSON {
		if err := printFacts(p, &profile, &read); err != nil {
			return nil, err
		}
	}
	switch {
	case read.Skip:
		return nil, c.decided(p, client.Answer{Allowed: true, Status: http.StatusOK},
			"allowed: the profile skips the method "+read.Descriptor.Method)
	case read.Denied != "":
		return nil, c.decided(p, client.Answer{Status: http.StatusForbidden},
			"denied (403): the profile denies requests without the fact "+read.Denied)
	}
	return c.described(&read.Descriptor), nil
}

// decided prints the decision of a profile that needs no check.
func (c *checkCmd) decided(p *process, a client.Answer, words string) error {
	if c.JSON {
		words = field.JSONText(map[string]any{"allowed": a.Allowed, "status": a.Status})
	}
	fmt.Fprintln(p.out, words)
	if !a.Allowed {
		return errNo
	}
	return nil
}

// request returns the request of the arguments METHOD and URL, with the headers of the flags.
func (c *checkCmd) request() (*facts.Request, error) {
	if c.Key+c.Method+c.Route+c.Host+c.IP+c.User+c.APIKey+c.Tier != "" || len(c.Attribute)+len(c.Field) > 0 ||
		c.Limit != nil {
		return nil, errors.New("--profile reads the facts from the request; remove --key, --limit, --method, --route, " +
			"--host, --ip, --user, --api-key, --tier, --attribute and --field")
	}
	r := &facts.Request{Method: http.MethodGet}
	switch len(c.Request) {
	case 1:
		r.Target = c.Request[0]
	case 2:
		r.Method, r.Target = c.Request[0], c.Request[1]
	default:
		return nil, errors.New("--profile requires a method and a path, such as GET /users/17")
	}
	if u, err := url.Parse(r.Target); err == nil {
		r.Host = u.Host
	}
	for _, h := range c.Header {
		if !r.AddHeader(h) {
			return nil, fmt.Errorf("--header must be like 'X-User: 42', not %q", h)
		}
	}
	return r, nil
}

// described returns the question about a descriptor.
func (c *checkCmd) described(d *match.Descriptor) map[string]any {
	q := map[string]any{"weight": *c.Weight}
	if c.RequestID != "" {
		q["request_id"] = c.RequestID
	}
	for name, value := range map[string]string{"method": d.Method, "route": d.Route, "user": d.User, "api_key": d.APIKey,
		"tier": d.Tier, "host": d.Host} {
		if value != "" {
			q[name] = value
		}
	}
	if d.IP.IsValid() {
		q["ip"] = d.IP
	}
	if len(d.Attributes) > 0 {
		q["attributes"] = d.Attributes
	}
	if len(d.Fields) > 0 {
		q["fields"] = d.Fields
	}
	return q
}

// printFacts prints the facts that a profile has read.
func printFacts(p *process, profile *profile.Profile, read *facts.Facts) error {
	fmt.Fprintf(p.out, "profile %s, version %d, reads\n", profile.Name, profile.Version)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, f := range read.List() {
		fmt.Fprintf(w, "  %s\t%s\n", chars.Shown(f.Name), chars.Shown(f.Value))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.out)
	return err
}
