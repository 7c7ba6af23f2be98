package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"sluice/api/client"
	"sluice/internal/config"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/rulefile"
)

type overridesCmd struct {
	List   overridesListCmd   `cmd:"" help:"List the overrides of a rule."`
	Set    overridesSetCmd    `cmd:"" help:"Create an override for a key, or replace the existing one."`
	Delete overridesDeleteCmd `cmd:"" help:"Delete the override of a key."`
	Import overridesImportCmd `cmd:"" help:"Import overrides from a CSV file, all or nothing."`
	Export overridesExportCmd `cmd:"" help:"Export the overrides of a rule as a CSV file."`
}

// ruleFlags identify a rule on a server.
type ruleFlags struct {
	config.Client `embed:""`
	Rule          string `arg:"" help:"Name or id of the rule."`
}

// overridesOf accesses the overrides of one rule on a server.
type overridesOf struct {
	*client.Client
	path string // /ratelimit/rules/7/overrides
}

// open finds the rule.
func (c *ruleFlags) open(p *process) (*overridesOf, error) {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return nil, err
	}
	o := &overridesOf{Client: server}
	if o.path, err = c.find(p, o); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// find returns the path of the rule's overrides.
func (c *ruleFlags) find(p *process, o *overridesOf) (string, error) {
	query := url.Values{"q": {c.Rule}, "page_size": {"500"}}
	for {
		var page struct {
			Rules []rules.Rule `json:"rules"`
			Next  string       `json:"next_page_token"`
		}
		if err := o.get(p, "/ratelimit/rules?"+query.Encode(), &page); err != nil {
			return "", err
		}
		for i := range page.Rules {
			if page.Rules[i].Name == c.Rule {
				return fmt.Sprintf("/ratelimit/rules/%d/overrides", page.Rules[i].ID), nil
			}
		}
		if page.Next == "" {
			break
		}
		query.Set("page_token", page.Next)
	}
	id, err := strconv.ParseInt(c.Rule, 10, 64)
	if err != nil || id < 1 {
		return "", fmt.Errorf("rule %q does not exist", c.Rule)
	}
	return fmt.Sprintf("/ratelimit/rules/%d/overrides", id), nil
}

func (o *overridesOf) get(p *process, path string, into any) error {
	raw, err := o.Do(p.ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	return readAnswer(raw, into)
}

func readAnswer(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	return nil
}

// page reads one page of overrides.
func (o *overridesOf) page(p *process, query url.Values) ([]rules.Override, string, error) {
	var page struct {
		Overrides []rules.Override `json:"overrides"`
		Next      string           `json:"next_page_token"`
	}
	err := o.get(p, o.path+"?"+query.Encode(), &page)
	return page.Overrides, page.Next, err
}

// find returns the override of a key, even if it has expired, or nil.
func (o *overridesOf) find(p *process, key string) (*rules.Override, error) {
	list, _, err := o.page(p, url.Values{"key": {key}, "include_expired": {"true"}})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

type overridesListCmd struct {
	ruleFlags `embed:""`
	Search    string `name:"search" short:"q" placeholder:"TEXT" help:"Only overrides with this text in the key or reason."`
	Expired   bool   `name:"expired" help:"Include expired overrides."`
	JSON      bool   `name:"json" help:"Print JSON, one object per line."`
}

// Run prints page by page, so that a million overrides need no memory.
func (c *overridesListCmd) Run(p *process) error {
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.Close()
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(t, "KEY\tOVERRIDE\tEXPIRES\tREASON")
	}
	query := url.Values{"page_size": {"500"}, "include_expired": {strconv.FormatBool(c.Expired)}}
	if c.Search != "" {
		query.Set("q", c.Search)
	}
	for {
		list, next, err := o.page(p, query)
		if err != nil {
			return err
		}
		for i := range list {
			if c.JSON {
				if err := json.NewEncoder(p.out).Encode(&list[i]); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", chars.Shown(list[i].Key), effect(&list[i]), expiry(&list[i]),
				chars.Shown(list[i].Reason))
		}
		if err := t.Flush(); err != nil || next == "" {
			return err
		}
		query.Set("page_token", next)
	}
}

func effect(o *rules.Override) string {
	if o.Calendar != nil {
		alone := *o
		if alone.Calendar = nil; o.Limit == nil {
			return o.Calendar.String()
		}
		return effect(&alone) + ", " + o.Calendar.String()
	}
	switch {
	case o.Blocked:
		return "blocked"
	case o.Unlimited:
		return "unlimited"
	case o.Burst != nil:
		return fmt.Sprintf("limit %d, burst %d", *o.Limit, *o.Burst)
	case o.Limit != nil:
		return fmt.Sprintf("limit %d", *o.Limit)
	}
	return "?"
}

func expiry(o *rules.Override) string {
	if o.ExpiresAt == nil {
		return "never"
	}
	return o.ExpiresAt.UTC().Format(time.RFC3339)
}

type overridesSetCmd struct {
	ruleFlags `embed:""`
	Key       string        `arg:"" help:"Key, such as user:42 or user:acme-*."`
	Limit     *int64        `name:"limit" placeholder:"N" help:"Limit for the key, in units per window."`
	Burst     *int64        `name:"burst" placeholder:"N" help:"Burst for the key, for bucket algorithms; equals --limit if not set."`
	Unlimited bool          `name:"unlimited" help:"Do not limit the key."`
	Blocked   bool          `name:"blocked" help:"Deny every request of the key."`
	Calendar  string        `name:"calendar" placeholder:"MEMBERS" help:"What differs from the rule's calendar, as in zone=Europe/Berlin anchor_day=15."`
	Reason    string        `name:"reason" placeholder:"TEXT" help:"Reason, shown to colleagues."`
	Expires   time.Duration `name:"expires" placeholder:"TIME" help:"Lifetime, such as 720h; unlimited if not set."`
	JSON      bool          `name:"json" help:"Print JSON."`
}

// Run replaces an existing override only at the version that it has read, so that no
// edit in between is lost.
func (c *overridesSetCmd) Run(p *process) error {
	if c.Expires < 0 {
		return errors.New("--expires must not be negative")
	}
	var calendar *rules.OverrideCalendar
	if c.Calendar != "" {
		var err error
		if calendar, err = rules.ParseOverrideCalendar(c.Calendar); err != nil {
			return fmt.Errorf("--calendar %w", err)
		}
	}
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.Close()
	body := map[string]any{"key": c.Key, "limit": c.Limit, "burst": c.Burst, "unlimited": c.Unlimited,
		"blocked": c.Blocked, "calendar": calendar, "reason": c.Reason}
	if c.Expires > 0 {
		body["expires_at"] = p.now().Add(c.Expires).UTC().Format(time.RFC3339Nano)
	}
	was, err := o.find(p, c.Key)
	if err != nil {
		return err
	}
	method, path := http.MethodPost, o.path
	var headers []string
	if was != nil {
		method, path = http.MethodPut, fmt.Sprintf("%s/%d", o.path, was.ID)
		headers = []string{"If-Match", fmt.Sprintf(`"%d"`, was.Version)}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	raw, err := o.Do(p.ctx, method, path, "application/json", data, headers...)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := p.out.Write(raw)
		return err
	}
	var is rules.Override
	if err := readAnswer(raw, &is); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s: %s (expires: %s)\n", chars.Shown(is.Key), effect(&is), expiry(&is))
	return err
}

type overridesDeleteCmd struct {
	ruleFlags `embed:""`
	Key       string `arg:"" help:"Key, such as user:42 or user:acme-*."`
}

// Run deletes the override, whatever its version.
func (c *overridesDeleteCmd) Run(p *process) error {
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.Close()
	was, err := o.find(p, c.Key)
	if err != nil {
		return err
	}
	if was == nil {
		return fmt.Errorf("the rule has no override for key %s", c.Key)
	}
	if _, err := o.Do(p.ctx, http.MethodDelete, fmt.Sprintf("%s/%d", o.path, was.ID), "", nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s: override deleted\n", chars.Shown(was.Key))
	return err
}

type overridesImportCmd struct {
	ruleFlags `embed:""`
	File      string `name:"file" short:"f" required:"" placeholder:"FILE" help:"CSV file with the columns key, limit, burst, unlimited, blocked, calendar, reason and expires_at; - reads standard input."`
	DryRun    bool   `name:"dry-run" help:"Show what would change without changing it."`
	Prune     bool   `name:"prune" help:"Delete overrides of the rule that are missing from the file."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

// Run sends the file in one request.
func (c *overridesImportCmd) Run(p *process) error {
	data, err := readUpTo(p, "--file", c.File, rulefile.MaxOverrideFile)
	if err != nil {
		return err
	}
	if _, err := rulefile.ParseOverrides(data); err != nil { // better messages without a request
		return fmt.Errorf("%s: %w", c.File, err)
	}
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.Close()
	query := url.Values{"dry_run": {strconv.FormatBool(c.DryRun)}, "prune": {strconv.FormatBool(c.Prune)}}
	raw, err := o.Do(p.ctx, http.MethodPost, o.path+"/import?"+query.Encode(), "text/csv", data)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := p.out.Write(raw)
		return err
	}
	var done rules.OverrideImported
	if err := readAnswer(raw, &done); err != nil {
		return err
	}
	word := "done"
	if done.DryRun {
		word = "dry run, nothing changed"
	}
	_, err = fmt.Fprintf(p.out, "%d created, %d updated, %d unchanged, %d deleted; %s\n", done.Created, done.Updated,
		done.Unchanged, done.Deleted, word)
	return err
}

type overridesExportCmd struct {
	ruleFlags `embed:""`
	File      string `name:"file" short:"f" default:"-" placeholder:"FILE" help:"Output file; - writes to standard output."`
}

// Run writes the file after the whole response was received and parsed.
func (c *overridesExportCmd) Run(p *process) error {
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.Close()
	data, err := o.Do(p.ctx, http.MethodGet, o.path+"/export", "", nil)
	if err != nil {
		return err
	}
	if _, err := csv.NewReader(bytes.NewReader(data)).ReadAll(); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	if c.File == "-" {
		_, err := p.out.Write(data)
		return err
	}
	return os.WriteFile(c.File, data, 0o600)
}

// readUpTo reads up to most bytes of a file, or of standard input for "-", and one byte
// more, so that the parser can report that it is too large. Errors name the flag.
func readUpTo(p *process, flag, name string, most int64) ([]byte, error) {
	r := p.in
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return data, nil
}
