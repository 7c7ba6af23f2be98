package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"sluice/api/client"
	"sluice/rules/chars"
)

// checkDescriptor sends one descriptor of the flags as Envoy would, or explains it.
func (c *checkCmd) checkDescriptor(p *process, server *client.Client) error {
	call, err := c.call()
	if err != nil {
		return err
	}
	if c.Explain {
		raw, err := server.Post(p.ctx, "/ratelimit/explain", call)
		if err != nil {
			return err
		}
		return c.explainDescriptor(p, raw)
	}
	raw, err := server.Post(p.ctx, "/ratelimit/rls", call)
	var refused *client.Problem
	switch denied := errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests; {
	case denied && c.JSON:
		fmt.Fprintf(p.out, "%s\n", refused.Body)
		return errNo
	case denied:
		fmt.Fprintln(p.out, "denied (429)")
		return errNo
	case err != nil:
		return err
	case c.JSON:
		fmt.Fprintf(p.out, "%s\n", raw)
		return nil
	}
	var a struct {
		Statuses []struct {
			CurrentLimit *struct {
				Name string `json:"name"`
			} `json:"currentLimit"`
			LimitRemaining int64 `json:"limitRemaining"`
		} `json:"statuses"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	fmt.Fprintln(p.out, "allowed")
	for _, st := range a.Statuses {
		if st.CurrentLimit != nil {
			fmt.Fprintf(p.out, "  %s: %d remaining\n", st.CurrentLimit.Name, st.LimitRemaining)
		}
	}
	return nil
}

// call returns the call of one descriptor, in the form of the protocol.
func (c *checkCmd) call() (map[string]any, error) {
	if c.Domain == "" || len(c.Entry) == 0 {
		return nil, errors.New("--domain and --entry belong together; --addend requires both")
	}
	if c.Key+c.Profile+c.Method+c.Route+c.Host+c.IP+c.User+c.APIKey+c.Tier+c.RequestID != "" || c.Weight != nil ||
		c.Limit != nil || len(c.Attribute)+len(c.Field)+len(c.Header)+len(c.Request) > 0 {
		return nil, errors.New("--domain asks about a descriptor of Envoy; remove the flags of other checks, and use " +
			"--addend for --weight")
	}
	list := make([]map[string]string, len(c.Entry))
	for i, text := range c.Entry {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, errors.New("--entry must be KEY=VALUE; without a value, KEY=")
		}
		list[i] = map[string]string{"key": key, "value": value}
	}
	descriptor := map[string]any{"entries": list}
	if c.Addend != nil {
		descriptor["hits_addend"] = *c.Addend
	}
	return map[string]any{"domain": c.Domain, "descriptors": []any{descriptor}}, nil
}

// explainDescriptor prints which rule the descriptor has, or why it has none.
func (c *checkCmd) explainDescriptor(p *process, raw []byte) error {
	var e struct {
		Profile     string        `json:"profile"`
		Message     string        `json:"message"`
		Decision    client.Answer `json:"decision"`
		SetVersion  int64         `json:"set_version"`
		ActiveRules int           `json:"active_rules"`
		Descriptors []struct {
			Matched bool   `json:"matched"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
			Key     string `json:"key"`
			Rule    struct {
				Name string `json:"name"`
			} `json:"rule"`
			Bucket *struct {
				Limit     int64 `json:"limit"`
				Remaining int64 `json:"remaining"`
			} `json:"bucket"`
			After int64 `json:"after"`
		} `json:"descriptors"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	if e.Profile != "" {
		if !c.JSON {
			fmt.Fprintln(p.out, chars.Shown(e.Message))
		} else {
			fmt.Fprintf(p.out, "%s\n", raw)
		}
		return c.explain(p, raw)
	}
	if c.JSON {
		fmt.Fprintf(p.out, "%s\n", raw)
	} else {
		fmt.Fprint(p.out, "would be ")
		render(&e.Decision, p.out)
		fmt.Fprintf(p.out, "\nrule set version %d, active rules: %d\n", e.SetVersion, e.ActiveRules)
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
		for i := range e.Descriptors {
			d := &e.Descriptors[i]
			mark, name := " ", d.Rule.Name
			if d.Matched {
				mark = "*"
			}
			if name == "" {
				name = d.Reason
			}
			fmt.Fprintf(w, "%s %s\t%s\t%s", mark, name, chars.Shown(d.Key), chars.Shown(d.Message))
			if b := d.Bucket; b != nil {
				fmt.Fprintf(w, " Limit %d, remaining %d, after the call %d.", b.Limit, b.Remaining, d.After)
			}
			fmt.Fprintln(w)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if !e.Decision.Allowed {
		return errNo
	}
	return nil
}
