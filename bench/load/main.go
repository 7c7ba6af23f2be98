// Command load measures sluice over loopback: throughput and CPU in a closed
// loop, latency in an open loop, embedded and with a Redis of its own. It starts
// every server it needs on free ports, stops them again, and prints a Markdown
// table. Run it from the top of the repository:
//
//	go run ./bench/load -seconds 5 -rounds 3
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

type settings struct {
	binary  string
	conns   int
	rounds  int
	seconds int
	rate    int
	keys    int
	only    string
}

func main() {
	var s settings
	flag.StringVar(&s.binary, "binary", "", "the sluice binary to measure; empty builds ./cmd/sluice")
	flag.IntVar(&s.conns, "conns", 64, "keep-alive connections, 1 to 1024")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of every scenario; medians are reported")
	flag.IntVar(&s.seconds, "seconds", 4, "length of one measurement, 1 to 60")
	flag.IntVar(&s.rate, "rate", 5000, "requests a second of the open loop")
	flag.IntVar(&s.keys, "keys", 10_000, "different users in the traffic")
	flag.StringVar(&s.only, "only", "", "measure only the scenarios whose name has one of these words in it, separated by semicolons")
	kind := flag.String("peer", "", "be a yardstick instead, constant or naive; this command starts those it needs")
	addr := flag.String("addr", "", "where the yardstick listens")
	redisURL := flag.String("redis", "", "the yardstick's Redis")
	flag.Parse()
	if *kind != "" {
		fmt.Fprintln(os.Stderr, "load:", peer(*kind, *addr, *redisURL))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if s.conns < 1 || s.conns > 1024 || s.seconds < 1 || s.seconds > 60 || s.rounds < 1 {
		return fmt.Errorf("conns must be 1 to 1024, seconds 1 to 60, rounds at least 1")
	}
	chosen := s.choose()
	if len(chosen) == 0 {
		return fmt.Errorf("no scenario has %q in its name", s.only)
	}
	// A stuck server must not hold the machine: everything ends well within this.
	limit := time.Duration(len(chosen)*s.rounds*(2*s.seconds+10)+300) * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	dir, err := os.MkdirTemp("", "sluice-load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.binary == "" {
		if s.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	results := make([]result, len(chosen))
	for round := range s.rounds {
		for i, sc := range chosen {
			m, err := measure(ctx, s, sc, dir)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", sc.name, round+1, err)
			}
			results[i].rounds = append(results[i].rounds, m)
		}
	}
	report(os.Stdout, s, chosen, results)
	return nil
}

// choose gives the scenarios that were asked for.
func (s *settings) choose() []scenario {
	words := strings.Split(s.only, ";")
	return slices.DeleteFunc(slices.Clone(scenarios), func(sc scenario) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(sc.name, w) })
	})
}
