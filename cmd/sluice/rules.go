package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"sluice/internal/config"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/rulefile"
)

type rulesCmd struct {
	Validate rulesValidateCmd `cmd:"" help:"Validate a rules file without a server. Exits with 0 if valid, 1 if not."`
	Plan     rulesPlanCmd     `cmd:"" help:"Show what applying a rules file would change on a server."`
	Apply    rulesApplyCmd    `cmd:"" help:"Apply a rules file to a server, all or nothing."`
	Export   rulesExportCmd   `cmd:"" help:"Export a server's rules to a file."`
	Doctor   rulesDoctorCmd   `cmd:"" help:"Show rules that do not do what they are for, by the figures of a server."`

	ImportEnvoy rulesImportEnvoyCmd `cmd:"" name:"import-envoy" help:"Import the configuration of envoyproxy/ratelimit, all or nothing."`
}

type rulesValidateCmd struct {
	File string `name:"file" short:"f" required:"" placeholder:"FILE" help:"Rules file, YAML or JSON; - reads standard input."`
	JSON bool   `name:"json" help:"Print JSON."`
	config.NewRules
}

// Run validates a file like a server.
func (c *rulesValidateCmd) Run(p *process) error {
	defaults, err := rules.ParseFailDefaults(c.FailDefaults)
	if err != nil {
		return fmt.Errorf("--fail-defaults (SLUICE_FAIL_DEFAULTS) %w", err)
	}
	list, err := parseFile(p, c.File)
	var bad *field.ValidationError
	var large *rulefile.TooLargeError
	switch {
	case errors.As(err, &bad):
	case errors.As(err, &large):
		bad = &field.ValidationError{Fields: []field.Problem{{Field: "file", Message: large.Error()}}}
	case err != nil:
		return err
	default:
		bad = &field.ValidationError{Fields: []field.Problem{}}
	}
	valid := len(bad.Fields) == 0
	warn(p, c.File, list)
	defaults.FillAll(list)
	for i := range list {
		for _, w := range defaults.OpenWrites(&list[i]) {
			fmt.Fprintf(p.errs, "warning: %s: rules[%d].%s: %s\n", c.File, i, w.Field, w.Message)
		}
	}
	plan := rules.MakePlan(nil, list, false)
	if c.JSON {
		out := map[string]any{"valid": valid, "rules": len(list), "errors": bad.Fields}
		if len(defaults) > 0 {
			out["fail_modes"] = plan.FailModes
		}
		if err := printJSON(p, out); err != nil {
			return err
		}
	} else {
		for _, f := range plan.FailModes {
			fmt.Fprintf(p.out, "%s: %s: fail_mode %s (%s)\n", c.File, f.Rule, f.FailMode, f.From)
		}
		for _, f := range bad.Fields {
			fmt.Fprintf(p.errs, "%s: %s %s\n", c.File, f.Field, f.Message)
		}
		if valid {
			fmt.Fprintf(p.out, "%s is valid; rules: %d\n", c.File, len(list))
		}
	}
	if !valid {
		return errNo
	}
	return nil
}

// warn prints warnings about valid rules.
func warn(p *process, file string, list []rules.Rule) {
	for i := range list {
		for _, w := range rules.Warnings(&list[i]) {
			fmt.Fprintf(p.errs, "warning: %s: rules[%d].%s: %s\n", file, i, w.Field, w.Message)
		}
	}
}

// parseFile reads a rules file and checks that it compiles.
func parseFile(p *process, name string) ([]rules.Rule, error) {
	data, err := readFile(p, "--file", name)
	if err != nil {
		return nil, err
	}
	file, err := rulefile.Parse(data)
	if err != nil {
		return nil, err
	}
	if err := file.CheckPatterns(nil, true); err != nil {
		return nil, err
	}
	list := file.Rules
	numbered := make([]rules.Rule, len(list))
	for i := range list {
		numbered[i] = list[i].Clone()
		numbered[i].ID = int64(i + 1)
	}
	if _, err := match.CompileSource(rules.Source{Rules: numbered, Pools: poolsFor(&file), Version: 1},
		match.Options{}); err != nil {
		return nil, err
	}
	return list, nil
}

// poolsFor returns the pools of a file, and a pool for every other name that its rules
// use, which the server is expected to have.
func poolsFor(file *rules.File) []rules.Pool {
	known := map[string]bool{}
	pools := append([]rules.Pool(nil), file.Pools...)
	for i := range pools {
		known[pools[i].Name] = true
	}
	for i := range file.Rules {
		if name := file.Rules[i].Pool; name != nil && !known[*name] {
			known[*name] = true
			p := rules.NewPool()
			p.Name, p.WindowMS = *name, 1
			pools = append(pools, p)
		}
	}
	return pools
}

// readFile reads a rules file, or standard input for "-".
func readFile(p *process, flag, name string) ([]byte, error) {
	return readUpTo(p, flag, name, rulefile.MaxFile)
}

// importFlags are the flags of plan and apply.
type importFlags struct {
	config.Client `embed:""`
	File          string `name:"file" short:"f" required:"" placeholder:"FILE" help:"Rules file, YAML or JSON; - reads standard input."`
	Prune         bool   `name:"prune" help:"Delete the server's rules that are missing from the file."`
	JSON          bool   `name:"json" help:"Print the server's plan as JSON."`
}

type rulesPlanCmd struct {
	importFlags `embed:""`
}

// Run shows what would change.
func (c *rulesPlanCmd) Run(p *process) error { return c.send(p, true, "") }

type rulesApplyCmd struct {
	importFlags `embed:""`
	Reason      string `name:"reason" placeholder:"TEXT" help:"Reason, recorded in the history of each rule and in the audit log."`
}

// Run applies the file in one transaction.
func (c *rulesApplyCmd) Run(p *process) error {
	if err := rules.CheckReason(c.Reason); err != nil {
		return fmt.Errorf("--reason: %w", err)
	}
	return c.send(p, false, c.Reason)
}

func (c *importFlags) send(p *process, dryRun bool, reason string) error {
	server, err := connectTo(p.ctx, &c.Client, importTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	data, err := readFile(p, "--file", c.File)
	if err != nil {
		return err
	}
	file, err := rulefile.Parse(data) // better messages without a request
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	warn(p, c.File, file.Rules)
	query := url.Values{}
	if dryRun {
		query.Set("dry_run", "true")
	}
	if c.Prune {
		query.Set("prune", "true")
	}
	kind := "application/yaml"
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		kind = "application/json"
	}
	raw, err := server.Do(p.ctx, http.MethodPost,
		"/ratelimit/rules/import?"+query.Encode(), kind, data, "Sluice-Reason", reason)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintf(p.out, "%s\n", raw)
		return err
	}
	var plan rules.Plan
	if err := json.Unmarshal(raw, &plan); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	_, err = fmt.Fprint(p.out, plan.String())
	return err
}

type rulesExportCmd struct {
	config.Client `embed:""`
	File          string `name:"file" short:"f" default:"-" placeholder:"FILE" help:"Output file; - writes to standard output."`
	JSON          bool   `name:"json" help:"Write JSON instead of YAML."`
	Owner         string `name:"owner" placeholder:"TEXT" help:"Only the rules of this owner and the pools that they use."`
}

// Run writes the file after the whole response was received.
func (c *rulesExportCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	query := url.Values{}
	if c.JSON {
		query.Set("format", "json")
	}
	if c.Owner != "" {
		query.Set("owner", c.Owner)
	}
	data, err := server.Do(p.ctx, http.MethodGet, "/ratelimit/rules/export?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	if c.File == "-" {
		_, err := p.out.Write(data)
		return err
	}
	return os.WriteFile(c.File, data, 0o600)
}
