// Command load measures sluice and comparable programs over loopback: throughput and CPU in a
// closed loop, latency in an open loop. It builds every server that it needs, starts it on free
// ports in each round, and stops it afterwards. It prints a Markdown table. With -out it writes
// the table into a page, with pictures. Run it from the folder bench:
//
//	go run ./load -seconds 3 -rounds 3
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"sluice/bench/page"
)

type settings struct {
	conns   int
	rounds  int
	seconds int
	rate    int
	keys    int
	gogc    string
	only    string
	out     string
	edits   bool
	imports bool
	before  string
	outage  time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.conns, "conns", 64, "keep-alive connections, 1 to 1024; scenarios over gRPC have their own")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of every scenario; medians are reported")
	flag.IntVar(&s.seconds, "seconds", 3, "length of one measurement, 1 to 60")
	flag.IntVar(&s.rate, "rate", 5000, "requests a second of the open loop")
	flag.IntVar(&s.keys, "keys", 10_000, "different users in the traffic")
	flag.StringVar(&s.gogc, "gogc", "400", "collector setting (GOGC) of every server; empty leaves each its own")
	flag.StringVar(&s.only, "only", "",
		"measure only the scenarios whose name is one of these texts, separated by semicolons, or has one in it")
	flag.StringVar(&s.out, "out", "",
		"page to write the tables into, between its marks; pictures go into the folder of the same name")
	flag.BoolVar(&s.edits, "edits", false, "measure only edits of one rule among many on three nodes")
	flag.BoolVar(&s.imports, "import", false, "measure only the memory of a node after an import of many rules")
	flag.StringVar(&s.before, "before", "",
		"program of an earlier version: compare the CPU of a check in the scenarios of sluice, in turn with this version")
	flag.DurationVar(&s.outage, "outage", 0,
		"measure only an outage of the decision log's Kafka of that length, up to 10m")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.conns < 1 || s.conns > 1024 || s.seconds < 1 || s.seconds > 60 || s.rounds < 1 || s.rate < 1 || s.keys < 1 {
		return fmt.Errorf("conns must be 1 to 1024, seconds 1 to 60; rounds, rate and keys at least 1")
	}
	chosen := slices.DeleteFunc(slices.Clone(scenarios), func(sc scenario) bool { return !s.wants(sc.name) })
	// A hanging server must not block the machine: everything ends well before this timeout.
	limit := time.Duration(len(chosen)*s.rounds*(2*s.seconds+15)+900) * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	dir, err := os.MkdirTemp("", "sluice-load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.edits {
		return editsOnly(ctx, s, dir)
	}
	if s.imports {
		return importOnly(ctx, s, dir)
	}
	if s.outage > 0 {
		return outageOnly(ctx, s, dir)
	}
	if s.before != "" {
		return beside(ctx, s, chosen, dir)
	}
	built, err := buildAll(ctx, dir, kinds(chosen))
	if err != nil {
		return err
	}
	chosen = slices.DeleteFunc(chosen, func(sc scenario) bool { return built.path[sc.kind] == "" })
	results := make([]result, len(chosen))
	for round := range s.rounds {
		for i, sc := range chosen {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, sc.name)
			m, err := measure(ctx, s, sc, built.path[sc.kind], dir)
			if err != nil {
				// The report must not silently omit a program that fails.
				return fmt.Errorf("%s, round %d: %w", sc.name, round+1, err)
			}
			results[i].scenario = sc
			results[i].rounds = append(results[i].rounds, m)
		}
	}
	var memory []bar
	if s.out != "" {
		printed, err := storeBenchmarks(ctx)
		if err != nil {
			return err
		}
		if memory, err = bytesAKey(printed); err != nil {
			return err
		}
		if err := writeCosts(results, printed); err != nil {
			return err
		}
	}
	if err := report(s, results, built.missing, memory); err != nil || s.out == "" {
		return err
	}
	return errors.Join(importOnly(ctx, s, dir), editsOnly(ctx, s, dir))
}

// importOnly measures the memory after an import and writes its section of the page.
func importOnly(ctx context.Context, s settings, dir string) error {
	built, err := buildAll(ctx, dir, []kind{sluice})
	if err != nil {
		return err
	}
	m, err := measureImport(ctx, dir, built.path[sluice])
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	var b bytes.Buffer
	m.report(&b)
	return s.section("import", b.String())
}

// editsOnly measures edits and writes their section of the page.
func editsOnly(ctx context.Context, s settings, dir string) error {
	built, err := buildAll(ctx, dir, []kind{sluice})
	if err != nil {
		return err
	}
	e, err := measureEdits(ctx, dir, built.path[sluice])
	if err != nil {
		return fmt.Errorf("edits: %w", err)
	}
	var b bytes.Buffer
	e.report(&b)
	return s.section("edits", b.String())
}

// section writes a section of the page, or prints it if there is no page.
func (s *settings) section(name, text string) error {
	if s.out == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return page.Splice(s.out, "bench", name, text)
}

// wants reports whether a scenario was selected. The whole name of one selects no other.
func (s *settings) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(s.only, ";"), func(text string) bool {
		whole := slices.ContainsFunc(scenarios, func(sc scenario) bool { return sc.name == text })
		return name == text || !whole && strings.Contains(name, text)
	})
}

func kinds(scs []scenario) []kind {
	var out []kind
	for _, sc := range scs {
		if !slices.Contains(out, sc.kind) {
			out = append(out, sc.kind)
		}
	}
	return out
}
