// Command sluice is a rate-limit service: sluice serve runs it, sluice demo demonstrates
// it, and the other commands manage its rules, tokens, accounts and database.
//
// Exit codes: 0 for success (check: allowed); 1 for a negative result (denied, not ready,
// not valid); 2 for errors (wrong usage, no server, a rejected request).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/config"
	"sluice/rules/chars"
)

// Exit codes.
const (
	exitDone  = 0
	exitNo    = 1
	exitError = 2
)

// process is the environment of a command.
type process struct {
	ctx  context.Context
	in   io.Reader
	out  io.Writer
	errs io.Writer
	now  func() time.Time
	// user is the name of the user who runs the command, for the audit log.
	user string
}

type cli struct {
	Serve       serveCmd       `cmd:"" help:"Run the service. By default: rules in an embedded database, counters in memory, on a loopback address."`
	Demo        demoCmd        `cmd:"" help:"Run the service in a temporary directory with sample rules and synthetic traffic. All data is deleted when it stops."`
	Check       checkCmd       `cmd:"" help:"Check one request on a running server. Exits with 0 if allowed, 1 if denied."`
	Rules       rulesCmd       `cmd:"" help:"Validate, plan, apply and export rules files."`
	Overrides   overridesCmd   `cmd:"" help:"List, set, delete, import and export overrides: exceptions from a rule for certain keys."`
	Usage       usageCmd       `cmd:"" help:"Show what keys of rules with keep_periods have spent, and restore counters after a loss of Redis."`
	Backtest    backtestCmd    `cmd:"" help:"Try rules on recorded traffic: replay a decision log, and show what would change."`
	Deferred    deferredCmd    `cmd:"" help:"Deliver deferred requests (of rules with over_limit: defer)."`
	Plan        planCmd        `cmd:"" help:"Estimate capacity: nodes, Redis shards, memory, cost."`
	Key         keyCmd         `cmd:"" help:"Translate names of buckets in Redis to rules and keys, and back."`
	Token       tokenCmd       `cmd:"" help:"Create, list and revoke API tokens, directly in the rules database."`
	User        userCmd        `cmd:"" help:"Create, list and disable console accounts, directly in the rules database."`
	Migrate     migrateCmd     `cmd:"" help:"Show or change the schema of the rules database. sluice serve runs migrate up when it starts."`
	Healthcheck healthcheckCmd `cmd:"" help:"Check whether a running server is ready. Exits with 0 if ready, 1 if not."`
	Version     versionCmd     `cmd:"" help:"Print version."`
}

// errNo is a negative result of a command, which the command has printed.
var errNo = errors.New("no")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the command gracefully; the next one ends the process.
	context.AfterFunc(ctx, stop)
	p := &process{ctx: ctx, in: os.Stdin, out: os.Stdout, errs: os.Stderr, now: time.Now}
	if u, err := user.Current(); err == nil {
		p.user = u.Username
	}
	os.Exit(run(p, os.Args[1:]))
}

// run executes one command line and returns its exit code.
func run(p *process, args []string) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	var c cli
	exited := false
	parser, err := kong.New(&c,
		kong.Name("sluice"),
		kong.Description("A rate-limit service. Start with: sluice serve"),
		kong.Writers(p.out, p.errs),
		kong.Exit(func(int) { exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ValueFormatter(helpText),
		kong.Bind(p),
		config.SecretFlags(),
	)
	if err != nil {
		return report(p, err)
	}
	k, err := parser.Parse(args)
	if err != nil && !exited {
		err = allErrors(parser, args, err)
	}
	switch {
	case exited: // help was printed
		return exitDone
	case err != nil:
		return report(p, fmt.Errorf("%w\nrun sluice --help for usage", err))
	}
	return report(p, k.Run())
}

// allErrors returns all errors of a command line and its environment. The parser stops
// at the first invalid value, so the command line is parsed again without each one.
func allErrors(parser *kong.Kong, args []string, err error) error {
	bad := environmentErrors(parser)
	removed := map[string]bool{}
	if len(bad) > 0 {
		_, err = parser.Parse(args)
	}
	for err != nil {
		flag, _, found := strings.Cut(err.Error(), ":")
		rest, there := removeFlag(args, flag)
		if !found || !there {
			break
		}
		bad, args, removed[flag] = append(bad, err), rest, true
		_, err = parser.Parse(args)
	}
	if err != nil {
		missing, isMissing := strings.CutPrefix(err.Error(), "missing flags: ")
		flags := slices.DeleteFunc(strings.Split(missing, ", "), func(s string) bool {
			flag, _, _ := strings.Cut(s, "=")
			return removed[flag]
		})
		switch {
		case !isMissing || len(removed) == 0:
			bad = append(bad, err)
		case len(flags) > 0: // without the flags that were removed above
			bad = append(bad, errors.New("missing flags: "+strings.Join(flags, ", ")))
		}
	}
	return errors.Join(bad...)
}

// removeFlag returns a command line without a flag and its value, in either form.
func removeFlag(args []string, flag string) (rest []string, found bool) {
	if !strings.HasPrefix(flag, "--") {
		return args, false
	}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...), found
		case args[i] == flag:
			found = true
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
				i++ // its value
			}
		case strings.HasPrefix(args[i], flag+"="):
			found = true
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, found
}

// environmentErrors returns an error for every environment variable with an invalid
// value, and removes the variable from the parser, which stops at the first one.
func environmentErrors(parser *kong.Kong) []error {
	var bad []error
	seen := map[string]bool{}
	_ = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && len(f.Tag.Envs) > 0 {
			if err := f.Reset(); err != nil {
				f.Tag.Envs = nil
				if text := err.Error(); !seen[text] { // several commands share a setting
					seen[text] = true
					bad = append(bad, err) // it begins with the name of the flag
				}
			}
		}
		return next(nil)
	})
	return bad
}

// helpText returns the help of a flag with its default and environment variable.
func helpText(v *kong.Value) string {
	help := strings.TrimSuffix(v.Help, ".")
	var more []string
	if v.HasDefault && v.Default != "" {
		more = append(more, "default "+v.Default)
	}
	for _, env := range v.Tag.Envs {
		more = append(more, "$"+env)
	}
	if len(more) > 0 {
		help += " (" + strings.Join(more, ", ") + ")"
	}
	return help + "."
}

// report prints the error of a command and returns the exit code.
func report(p *process, err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNo):
		return exitNo
	}
	fmt.Fprintf(p.errs, "sluice: %s%s\n", chars.ShownLines(err.Error()), advice(err))
	return exitError
}
