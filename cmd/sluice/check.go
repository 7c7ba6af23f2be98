package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/api/client"
	"sluice/internal/config"
)

type checkCmd struct {
	config.Client `embed:""`

	Key       string        `name:"key" group:"Direct check (you provide the limit)" placeholder:"TEXT" help:"Key of the bucket."`
	Limit     *int64        `name:"limit" group:"Direct check (you provide the limit)" placeholder:"N" help:"Units per window."`
	Window    time.Duration `name:"window" group:"Direct check (you provide the limit)" placeholder:"TIME" help:"Length of the window, such as 1m."`
	Algorithm string        `name:"algorithm" group:"Direct check (you provide the limit)" placeholder:"NAME" help:"Algorithm; sliding_window_counter if not set."`
	Burst     *int64        `name:"burst" group:"Direct check (you provide the limit)" placeholder:"N" help:"Capacity of token_bucket, gcra, leaky_bucket and leaky_queue."`
	FailMode  string        `name:"fail-mode" group:"Direct check (you provide the limit)" placeholder:"MODE" help:"Fail mode: open, closed or local."`

	Method    string            `name:"method" group:"Check by rules (you describe the request)" help:"HTTP method of the request."`
	Route     string            `name:"route" group:"Check by rules (you describe the request)" help:"Path of the request."`
	Host      string            `name:"host" group:"Check by rules (you describe the request)" help:"Host that the request is for."`
	IP        string            `name:"ip" group:"Check by rules (you describe the request)" help:"IP address of the client."`
	User      string            `name:"user" group:"Check by rules (you describe the request)" help:"User who sends the request."`
	APIKey    string            `name:"api-key" group:"Check by rules (you describe the request)" help:"The client's API key."`
	Tier      string            `name:"tier" group:"Check by rules (you describe the request)" help:"The client's plan."`
	Attribute map[string]string `name:"attribute" group:"Check by rules (you describe the request)" placeholder:"NAME=VALUE" help:"Attribute of the request; may be repeated."`
	Field     map[string]int64  `name:"field" group:"Check by rules (you describe the request)" placeholder:"NAME=N" help:"Numeric field of the request, for weight_field; may be repeated."`
	Explain   bool              `name:"explain" group:"Check by rules (you describe the request)" help:"Show for every rule why it applies or not. Spends nothing."`

	Profile string   `name:"profile" group:"Check as a gateway (a profile reads the request)" placeholder:"NAME" help:"Profile on the server that reads the request. Needs the scope rules:read."`
	Header  []string `name:"header" sep:"none" group:"Check as a gateway (a profile reads the request)" placeholder:"'NAME: VALUE'" help:"Header of the request; may be repeated."`
	Request []string `arg:"" optional:"" name:"request" help:"With --profile: method and path of the request, such as GET /users/17."`

	Domain string   `name:"domain" group:"Check as Envoy (a descriptor)" placeholder:"TEXT" help:"Domain of the descriptor."`
	Entry  []string `name:"entry" sep:"none" group:"Check as Envoy (a descriptor)" placeholder:"KEY=VALUE" help:"Entry of the descriptor; may be repeated, in Envoy's order."`
	Addend *int64   `name:"addend" group:"Check as Envoy (a descriptor)" placeholder:"N" help:"Units to spend, as Envoy's hits_addend. 0 checks without spending."`

	Weight    *int64 `name:"weight" placeholder:"N" help:"Units to spend; 1 if not set. 0 checks without spending."`
	RequestID string `name:"request-id" placeholder:"TEXT" help:"ID of the request. A repeat with the same ID within a minute gets the same answer and spends nothing."`
	JSON      bool   `name:"json" help:"Print the server's response as JSON."`
}

// Run sends one check and prints the response.
func (c *checkCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	if c.Domain != "" || len(c.Entry) > 0 || c.Addend != nil {
		return c.checkDescriptor(p, server)
	}
	ask := c.question
	if c.Profile != "" {
		ask = func() (map[string]any, error) { return c.readByProfile(p, server) }
	}
	question, err := ask()
	if question == nil || err != nil {
		return err
	}
	path := "/ratelimit/check"
	if c.Explain {
		path = "/ratelimit/explain"
	}
	raw, err := server.Post(p.ctx, path, question)
	if err != nil {
		return err
	}
	if c.JSON {
		fmt.Fprintf(p.out, "%s\n", raw)
	}
	if c.Explain {
		return c.explain(p, raw)
	}
	var a client.Answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	if !c.JSON {
		render(&a, p.out)
	}
	if !a.Allowed {
		return errNo
	}
	return nil
}

// question returns the request document, with the given flags only.
func (c *checkCmd) question() (map[string]any, error) {
	if c.Profile == "" && len(c.Request)+len(c.Header) > 0 {
		return nil, errors.New("a path, and --header, require --profile; without a profile use --method and --route")
	}
	q := map[string]any{}
	put := func(name, value string) {
		if value != "" {
			q[name] = value
		}
	}
	if c.Weight != nil {
		q["weight"] = *c.Weight
	}
	put("request_id", c.RequestID)
	described := c.Method + c.Route + c.Host + c.IP + c.User + c.APIKey + c.Tier
	if c.Key != "" {
		switch {
		case described != "" || len(c.Attribute)+len(c.Field) > 0:
			return nil, errors.New("--key comes with its own limit; remove --method, --route, --host, --ip, --user, " +
				"--api-key, --tier, --attribute and --field")
		case c.Explain:
			return nil, errors.New("--explain shows which rules apply; remove --key")
		case c.Limit == nil || c.Window <= 0:
			return nil, errors.New("--key requires --limit and --window")
		case c.Window%time.Millisecond != 0:
			return nil, errors.New("--window must be a whole number of milliseconds")
		}
		q["key"], q["limit"], q["window_ms"] = c.Key, *c.Limit, c.Window.Milliseconds()
		put("algorithm", c.Algorithm)
		put("fail_mode", c.FailMode)
		if c.Burst != nil {
			q["burst"] = *c.Burst
		}
		return q, nil
	}
	if c.Limit != nil || c.Window != 0 || c.Algorithm != "" || c.Burst != nil || c.FailMode != "" {
		return nil, errors.New("--limit, --window, --algorithm, --burst and --fail-mode require --key; without --key the " +
			"server's rules decide")
	}
	for name, value := range map[string]string{
		"method": c.Method, "route": c.Route, "host": c.Host, "ip": c.IP, "user": c.User, "api_key": c.APIKey,
		"tier": c.Tier,
	} {
		put(name, value)
	}
	if len(c.Attribute) > 0 {
		q["attributes"] = c.Attribute
	}
	if len(c.Field) > 0 {
		q["fields"] = c.Field
	}
	return q, nil
}
