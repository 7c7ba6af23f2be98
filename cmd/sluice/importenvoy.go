package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/api/client"
	"sluice/internal/config"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/envoyfile"
	"sluice/rules/field"
	"sluice/rules/rulefile"
)

type rulesImportEnvoyCmd struct {
	config.Client `embed:""`
	Paths         []string `arg:"" name:"path" help:"YAML files, or folders, of which the files .yaml and .yml are read; - reads standard input."`
	Plan          bool     `name:"plan" help:"Show what the import would change without changing it."`
	Algorithm     string   `name:"algorithm" placeholder:"NAME" help:"Algorithm of all rules. By default new rules have fixed_window, which counts as envoyproxy/ratelimit does, and others keep theirs."`
	Keep          bool     `name:"keep" help:"Keep the rules of a domain that the files no longer have. By default they are deleted."`
	MergeDomains  bool     `name:"merge-domains" help:"Allow several documents for one domain, as MERGE_DOMAIN_CONFIG does."`
	Months        bool     `name:"calendar-months" help:"Count limits per month in calendar months of UTC, as USE_CALENDAR_MONTH_RATE_LIMIT does, instead of windows of 30 days. Requires fixed_window."`
	Watch         bool     `name:"watch" help:"Import again whenever the files change, until SIGTERM. Invalid files change nothing."`
	JSON          bool     `name:"json" help:"Print the server's plan and report as JSON."`
	Reason        string   `name:"reason" placeholder:"TEXT" help:"Reason, recorded in the history of each rule and in the audit log."`
}

// Run imports the files in one transaction.
func (c *rulesImportEnvoyCmd) Run(p *process) error {
	if err := rules.CheckReason(c.Reason); err != nil {
		return fmt.Errorf("--reason: %w", err)
	}
	if c.Algorithm != "" {
		if _, err := limiter.ParseAlgorithm(c.Algorithm); err != nil {
			return fmt.Errorf("--algorithm: %w", err)
		}
	}
	if c.Months && c.Algorithm != "" && c.Algorithm != limiter.FixedWindow.String() {
		return errors.New("--calendar-months requires the algorithm fixed_window")
	}
	if c.Watch && (c.Plan || slices.Contains(c.Paths, "-")) {
		return errors.New("--watch needs files or folders, and cannot be combined with --plan")
	}
	server, err := connectTo(p.ctx, &c.Client, importTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	if c.Watch {
		return c.watch(p, server)
	}
	files, err := c.read(p)
	if err != nil {
		return err
	}
	return c.send(p, server, files)
}

// read reads the files. Files of a folder are read in the order of their names.
func (c *rulesImportEnvoyCmd) read(p *process) ([]envoyfile.Source, error) {
	var files []envoyfile.Source
	size := 0
	for _, path := range c.Paths {
		names, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := readUpTo(p, "--file", name, rulefile.MaxFile)
			if err != nil {
				return nil, errors.Unwrap(err) // without the name of a flag
			}
			if size += len(data); size > rulefile.MaxFile {
				return nil, rulefile.TooLarge("and those before it have more than %d bytes (64 MiB)", rulefile.MaxFile)
			}
			files = append(files, envoyfile.Source{Name: strings.ToValidUTF8(name, "?"), Data: data})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there are no files .yaml or .yml", strings.Join(c.Paths, ", "))
	}
	return files, nil
}

// filesOf returns the YAML files of a folder, or the path of a file itself. Hidden files do not count.
func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	found, err := os.ReadDir(path) // in the order of their names
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range found {
		name := filepath.Join(path, e.Name())
		if ext := filepath.Ext(name); strings.HasPrefix(e.Name(), ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		if info, err = os.Stat(name); err != nil { // follows the links of Kubernetes
			return nil, err
		}
		if info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

// send imports files and prints the report and the plan.
func (c *rulesImportEnvoyCmd) send(p *process, server *client.Client, files []envoyfile.Source) error {
	body := envoyfile.Join(files)
	in, err := envoyfile.Parse(envoyfile.Split(body), // what the server will read
		envoyfile.Options{Algorithm: c.Algorithm, MergeDomains: c.MergeDomains, CalendarMonths: c.Months})
	if err == nil {
		err = in.Check()
	}
	if err != nil { // better messages without a request
		return listProblems(err)
	}
	query := url.Values{"format": {"envoy"}, "dry_run": {strconv.FormatBool(c.Plan)}, "keep": {strconv.FormatBool(c.Keep)},
		"merge_domains": {strconv.FormatBool(c.MergeDomains)}, "calendar_months": {strconv.FormatBool(c.Months)}}
	if c.Algorithm != "" {
		query.Set("algorithm", c.Algorithm)
	}
	raw, err := server.Do(p.ctx, http.MethodPost, "/ratelimit/rules/import?"+query.Encode(), "application/yaml", body,
		"Sluice-Reason", c.Reason)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintf(p.out, "%s\n", raw)
		return err
	}
	var answer struct {
		rules.Plan
		Report []envoyfile.Note `json:"report"`
	}
	if err := readAnswer(raw, &answer); err != nil {
		return err
	}
	for _, n := range answer.Report {
		fmt.Fprintf(p.errs, "note: %s\n", n)
	}
	_, err = fmt.Fprint(p.out, answer.String())
	return err
}

// listProblems writes each problem of the files on its own line.
func listProblems(err error) error {
	var invalid *field.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var b strings.Builder
	b.WriteString("the files are invalid, nothing was changed")
	for _, f := range invalid.Fields {
		fmt.Fprintf(&b, "\n  %s: %s", f.Field, f.Message)
	}
	return &invalidFilesError{b.String()}
}

// invalidFilesError says that only other files would help.
type invalidFilesError struct{ text string }

func (e *invalidFilesError) Error() string { return e.text }
