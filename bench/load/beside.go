package main

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// beside measures this version and an earlier one in turn, in the scenarios of sluice, and prints what processor time a
// check took in each, and the ratio round by round: on a busy machine both sides of a round have the same neighbours.
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
				results[i][which].rounds = append(results[i][which].rounds, m)
			}
		}
	}
	fmt.Printf("%d rounds of %d s each, in turn.\n\n| scenario | server CPU µs a check before | now | ratio, median "+
		"(quartiles) | Redis CPU, ratio |\n|---|---|---|---|---|\n", s.rounds, s.seconds)
	for i, sc := range chosen {
		before, now := results[i][0], results[i][1]
		redis := "–"
		if sc.redis {
			redis = quartiles(before, now, redisFigure)
		}
		fmt.Printf("| %s | %s | %s | %s | %s |\n", sc.name, us(median(before, serverCPU)), us(median(now, serverCPU)),
			quartiles(before, now, cpuFigure), redis)
	}
	return nil
}

// quartiles are those of the ratios of a figure in each round.
func quartiles(before, now result, figure func(measurement) float64) string {
	ratios := make([]float64, len(now.rounds))
	for i := range ratios {
		ratios[i] = figure(now.rounds[i]) / figure(before.rounds[i])
	}
	slices.Sort(ratios)
	n := len(ratios)
	return fmt.Sprintf("%.3f (%.3f to %.3f)", ratios[n/2], ratios[n/4], ratios[n-1-n/4])
}
