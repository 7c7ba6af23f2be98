package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sluice/api/client"
	"sluice/internal/config"
	"sluice/internal/telemetry"
	"sluice/rules/chars"
)

// printJSON prints v as indented JSON.
func printJSON(p *process, v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printLine prints v as one line of JSON.
func printLine(p *process, v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

type healthcheckCmd struct {
	config.Remote `embed:""`
}

// Run requests /readyz, which requires no token.
func (c *healthcheckCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &config.Client{Remote: c.Remote}, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	_, err = server.Do(p.ctx, http.MethodGet, "/readyz", "", nil)
	if err == nil {
		fmt.Fprintln(p.out, "ready")
		return nil
	}
	var problem *client.Problem
	if !errors.As(err, &problem) {
		fmt.Fprintf(p.errs, "not ready: %s%s\n", chars.ShownLines(err.Error()), advice(err))
		return errNo
	}
	reason := problem.Detail
	if reason == "" {
		reason = problem.Title
	}
	fmt.Fprintf(p.errs, "not ready: %s\n", chars.Shown(reason))
	return errNo
}

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the build information.
func (c *versionCmd) Run(p *process) error {
	b := telemetry.ReadBuild()
	if c.JSON {
		return printJSON(p, b)
	}
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	_, err := fmt.Fprintf(p.out, "sluice %s (revision %s%s, %s)\n", b.Version, b.Revision, modified, b.Go)
	return err
}
