// Command overload measures a node that receives more checks than it can decide, gets less of a processor than it
// needs, or uses a failing Redis. It builds the node, starts it with a new Redis on free loopback ports for each case,
// and prints a Markdown table. It fails if a target is missed. Run it from the folder bench:
//
//	go run ./overload -only busy,open
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"sluice/bench/page"
)

// part is a group of cases that can be chosen.
type part struct {
	name    string
	measure func(context.Context, *bench) error
}

var parts = []part{
	{"capacity", measureCapacity},
	{"busy", measureBusy},
	{"open", measureOpen},
	{"connections", measureConnections},
	{"stopped", measureStopped},
	{"hogs", measureHogs},
	{"embedded", measureEmbedded},
	{"outage", measureOutages},
}

// mostTime ends everything, so that a hanging node does not block the machine.
const mostTime = 30 * time.Minute

func main() {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	only := flag.String("only", "", "measure only these parts, separated by commas: "+strings.Join(names, ", "))
	seconds := flag.Int("seconds", 0, "length of each load, 2 to 600; 0 is that of each case, which its targets are for")
	program := flag.String("node", "", "program of the node; empty builds that of this tree")
	out := flag.String("out", "", "page to write the table into, between its marks")
	busy := flag.Duration("hog", 0, "be a busy loop for that time and do nothing else; other parts start such processes")
	flag.Parse()
	// A goroutine that holds a place of the runtime's while the system runs other programs must not keep the callers
	// from theirs. The collector runs seldom for the same reason.
	runtime.GOMAXPROCS(8)
	debug.SetGCPercent(400)
	if *busy > 0 {
		spin(*busy)
		return
	}
	chosen, err := choose(*only)
	if err == nil && *seconds != 0 && (*seconds < 2 || *seconds > 600) {
		err = fmt.Errorf("-seconds must be 2 to 600, or 0")
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, chosen, *seconds, *program, *out)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// choose returns the parts of a list, all of them for an empty one.
func choose(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	var out []part
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no part %q", name)
		}
		out = append(out, parts[i])
	}
	return out, nil
}

func run(ctx context.Context, chosen []part, seconds int, program, out string) error {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "sluice-overload")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, program: program, seconds: seconds, capacities: capacities{}}
	if program == "" {
		progress("building the node")
		if err := b.build(ctx); err != nil {
			return err
		}
	}
	for _, p := range chosen {
		if err := p.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	var text bytes.Buffer
	report(&text, b.rows)
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	if out != "" {
		if err := page.Splice(out, "bench-overload", "cases", text.String()); err != nil {
			return err
		}
	}
	if bad := missed(b.rows); len(bad) > 0 {
		return fmt.Errorf("%d targets were missed:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return nil
}
