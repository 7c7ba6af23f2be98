package main

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/internal/config"
	"sluice/rules/chars"
)

type usageCmd struct {
	Show    usageShowCmd    `cmd:"" default:"withargs" help:"Show the statement of a rule."`
	Restore usageRestoreCmd `cmd:"" help:"Charge what counters lack of their statements after the counter store lost its data."`
}

type usageShowCmd struct {
	config.Client `embed:""`
	Rule          string `name:"rule" required:"" placeholder:"NAME" help:"Name or id of the rule."`
	Period        string `name:"period" placeholder:"TIME" help:"An instant in the period, such as 2026-11-01T00:00:00Z; the present period if not set."`
	Key           string `name:"key" placeholder:"KEY" help:"Only this key, such as user:42."`
	By            string `name:"by" enum:"key,period" default:"key" help:"A line for each key, or the sum of each period."`
	Format        string `name:"format" enum:"table,csv,json" default:"table" help:"table, csv, or json: one object per line."`
}

// usageLine is a line of a statement.
type usageLine struct {
	Period string `json:"period"`
	Key    string `json:"key,omitempty"`
	Keys   int64  `json:"keys,omitempty"`
	Spent  int64  `json:"spent"`
	SeenMS int64  `json:"seen_ms,omitempty"`
}

// Run prints page by page, so that a million keys need no memory.
func (c *usageShowCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	query := url.Values{"rule": {c.Rule}, "by": {c.By}, "page_size": {"500"}}
	for name, value := range map[string]string{"period": c.Period, "key": c.Key} {
		if value != "" {
			query.Set(name, value)
		}
	}
	write := c.printer(p)
	for {
		var page struct {
			Usage []usageLine `json:"usage"`
			Next  string      `json:"next_page_token"`
		}
		raw, err := server.Do(p.ctx, http.MethodGet, "/ratelimit/usage?"+query.Encode(), "", nil)
		if err != nil {
			return err
		}
		if err := readAnswer(raw, &page); err != nil {
			return err
		}
		if err := write(page.Usage); err != nil || page.Next == "" {
			return err
		}
		query.Set("page_token", page.Next)
	}
}

// printer returns what prints the lines of a page.
func (c *usageShowCmd) printer(p *process) func([]usageLine) error {
	if c.Format == "json" {
		return func(lines []usageLine) error {
			for i := range lines {
				if err := printLine(p, lines[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	head := []string{"period", "key", "spent", "read"}
	if c.By == "period" {
		head = []string{"period", "keys", "spent"}
	}
	cells := func(l *usageLine) []string {
		if c.By == "period" {
			return []string{l.Period, strconv.FormatInt(l.Keys, 10), strconv.FormatInt(l.Spent, 10)}
		}
		return []string{l.Period, chars.Cell(l.Key), strconv.FormatInt(l.Spent, 10),
			time.UnixMilli(l.SeenMS).UTC().Format(time.RFC3339)}
	}
	if c.Format == "csv" {
		w := csv.NewWriter(p.out)
		_ = w.Write(head) // Error says what failed
		return func(lines []usageLine) error {
			for i := range lines {
				_ = w.Write(cells(&lines[i]))
			}
			w.Flush()
			return w.Error()
		}
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(head, "\t")))
	return func(lines []usageLine) error {
		for i := range lines {
			fmt.Fprintln(t, strings.Join(cells(&lines[i]), "\t"))
		}
		return t.Flush()
	}
}

type usageRestoreCmd struct {
	config.Client `embed:""`
	DryRun        bool `name:"dry-run" help:"Show what is missing without charging it."`
	JSON          bool `name:"json" help:"Print JSON, one object per key."`
}

// restoredKey is a key whose counter lacked units.
type restoredKey struct {
	Rule   string `json:"rule"`
	Period string `json:"period"`
	Key    string `json:"key"`
	Spent  int64  `json:"spent"`
	Units  int64  `json:"units"`
}

// Run restores page by page, and prints each key whose counter lacked units. It exits with 1 if the counters were lost
// again during the restore.
func (c *usageRestoreCmd) Run(p *process) error {
	server, err := connectTo(p.ctx, &c.Client, callTimeout)
	if err != nil {
		return err
	}
	defer server.Close()
	query := url.Values{"dry_run": {strconv.FormatBool(c.DryRun)}}
	read, missing, units := 0, 0, int64(0)
	for {
		var page struct {
			Lost    bool          `json:"lost"`
			Read    int           `json:"read"`
			Missing []restoredKey `json:"missing"`
			Next    string        `json:"next_page_token"`
		}
		raw, err := server.Do(p.ctx, http.MethodPost, "/ratelimit/usage/restore?"+query.Encode(), "", nil)
		if err != nil {
			return err
		}
		if err := readAnswer(raw, &page); err != nil {
			return err
		}
		for _, m := range page.Missing {
			if c.JSON {
				err = printLine(p, m)
			} else {
				_, err = fmt.Fprintf(p.out, "%s  %s  %s  %d of %d\n", m.Rule, m.Period, chars.Shown(m.Key), m.Units, m.Spent)
			}
			if err != nil {
				return err
			}
			units += m.Units
		}
		read, missing = read+page.Read, missing+len(page.Missing)
		if page.Next == "" {
			return c.sum(p, read, missing, units, page.Lost)
		}
		query.Set("page_token", page.Next)
	}
}

// sum prints a summary, on standard error after lines of JSON.
func (c *usageRestoreCmd) sum(p *process, read, missing int, units int64, lost bool) error {
	out := p.out
	if c.JSON {
		out = p.errs
	}
	word := "charged"
	if c.DryRun {
		word = "dry run, nothing charged"
	}
	fmt.Fprintf(out, "%d keys compared, %d lacked %d units; %s\n", read, missing, units, word)
	if lost && !c.DryRun {
		fmt.Fprintln(p.errs, "sluice: the counters were lost once more meanwhile; restore them again")
		return errNo
	}
	return nil
}
