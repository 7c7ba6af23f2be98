package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
)

// beside measures this version and an earlier one in turn, in the scenarios of sluice. It prints the processor time per
// check of each version, and the ratios of processor time, throughput and p99 in each round: on a busy machine, other
// programs disturb both versions in a round equally.
func beside(ctx context.Context, s settings, chosen []scenario, dir string) error {
	chosen = slices.DeleteFunc(chosen, func(sc scenario) bool { return sc.kind != sluice })
	built, err := buildAll(ctx, dir, []kind{sluice})
	if err != nil {
		return err
	}
	programs := [...]string{s.before, built.path[sluice]}
	results := make([][len(programs)]result, len(chosen))
	for round := range s.rounds {
		for i, sc := range chosen {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, s.rounds, sc.name)
			for n := range programs {
				which := (n + round) % len(programs) // neither is always the first
				m, err := measure(ctx, s, sc, programs[which], dir)
				if err != nil {
					return fmt.Errorf("%s, %s, round %d: %w", programs[which], sc.name, round+1, err)
				}
				results[i][which].scenario = sc
				results[i][which].rounds = append(results[i][which].rounds, m)
			}
		}
	}
	fmt.Printf("%d cores, %s, load average %s at the end, %d rounds of %d s each, in turn. Ratios of now to before, "+
		"round by round: the median, the least and the greatest.\n\n", runtime.NumCPU(), runtime.Version(), loadAverage(),
		s.rounds, s.seconds)
	fmt.Print("| scenario | server CPU µs a check before | now | server CPU | throughput | p99 | Redis CPU |\n" +
		"|---|---|---|---|---|---|---|\n")
	for i := range results {
		before, now := &results[i][0], &results[i][1]
		redis := "–"
		if now.scenario.redis {
			redis = ratio(now, before, redisFigure)
		}
		shown := now
		if median(*before, withoutStore) > median(*now, withoutStore) {
			shown = before
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s |\n", shown.shown(), us(median(*before, serverCPU)),
			us(median(*now, serverCPU)), ratio(now, before, cpuFigure), ratio(now, before, perSecond),
			ratio(now, before, closedTailFigure), redis)
	}
	return nil
}
