package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"sluice/internal/capacity"
)

// costsPath is the table of `sluice plan`, from the folder bench.
const costsPath = "../internal/capacity/costs.json"

const batches = "sluice on Redis, batches of 100"

// Lines of the Redis store's own benchmarks: the time of a check in a call of 50, and the memory of full sub-windows.
var (
	callLine = regexp.MustCompile(`(?m)^BenchmarkScript_BatchesOf50/(\w+)\S*\s.*?([\d.]+) redis-cpu-µs/check`)
	fullLine = regexp.MustCompile(`(?m)^BenchmarkMemory_Full/60_sub-windows\S*\s.*?([\d.]+) bytes`)
)

const (
	callChecks = 50
	// fullMore is the memory of the expiry of a key, which MEMORY USAGE leaves out, minus the savings of a packed name.
	fullMore = 40 - 16
	// logAlgorithm is not in the table of memory: a plan knows the size of an entry.
	logAlgorithm = "sliding_window_log"
)

// storeBenchmarks runs the benchmarks of the Redis store that a plan needs, and returns their output.
func storeBenchmarks(ctx context.Context) (string, error) {
	fmt.Fprintln(os.Stderr, "the Redis store: memory of a bucket, calls of 50 checks")
	memory, err := goBench(ctx, "Memory", "1x")
	if err != nil {
		return "", err
	}
	calls, err := goBench(ctx, "BatchesOf50", "1s")
	return memory + calls, err
}

func goBench(ctx context.Context, pattern, time string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", time,
		"./limiter/redisstore")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return string(out), nil
}

// writeCosts brings the table of `sluice plan` up to date.
func writeCosts(results []result, printed string) error {
	text, err := os.ReadFile(costsPath)
	if err != nil {
		return err
	}
	old, err := capacity.ReadCosts(text)
	if err != nil {
		return fmt.Errorf("%s: %w", costsPath, err)
	}
	c, err := planCosts(old, results, printed)
	if err != nil {
		return err
	}
	if text, err = c.Write(); err != nil {
		return err
	}
	return os.WriteFile(costsPath, text, 0o644) //nolint:gosec // part of the source
}

// planCosts returns the table that follows from the results and from the output of the benchmarks of the Redis store.
func planCosts(old *capacity.Costs, results []result, printed string) (*capacity.Costs, error) {
	cost := func(name string) (capacity.Cost, error) {
		for _, r := range results {
			if r.scenario.name == name {
				return capacity.Cost{Node: micros(median(r, serverCPU)), Redis: micros(median(r, redisCPU))}, nil
			}
		}
		return capacity.Cost{}, fmt.Errorf("%q was not measured, and sluice plan needs it", name)
	}
	c := &capacity.Costs{Measured: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		CallChecks: callChecks,
		CallMicros: map[string]float64{}, KeyBytes: map[string]float64{logAlgorithm: old.KeyBytes[logAlgorithm]}}
	var one capacity.Cost
	for _, of := range []struct {
		connections int
		name        string
	}{{8, oneOnRedis + with8}, {64, oneOnRedis}, {512, oneOnRedis + with512}} {
		found, err := cost(of.name)
		if err != nil {
			return nil, err
		}
		if of.name == oneOnRedis {
			one = found
		}
		c.Connections = append(c.Connections, capacity.ConnectionCost{Connections: of.connections, Cost: found})
	}
	three, err := cost(threeRules)
	if err != nil {
		return nil, err
	}
	c.FurtherRule = capacity.Cost{Node: rounded((three.Node-one.Node)/2, 100),
		Redis: rounded((three.Redis-one.Redis)/2, 100)}
	batch, err := cost(batches)
	if err != nil {
		return nil, err
	}
	c.BatchMicros = batch.Node
	return c, storeCosts(c, printed)
}

// storeCosts adds the output of the benchmarks of the Redis store.
func storeCosts(c *capacity.Costs, printed string) error {
	for _, m := range callLine.FindAllStringSubmatch(printed, -1) {
		c.CallMicros[m[1]] = rounded(number(m[2]), 10)
	}
	for _, m := range memoryLine.FindAllStringSubmatch(printed, -1) {
		if m[2] == "false" && m[1] != logAlgorithm {
			c.KeyBytes[m[1]] = math.Round(number(m[3]))
		}
	}
	if m := fullLine.FindStringSubmatch(printed); m != nil {
		c.KeyBytes["sliding_window_buckets"] = number(m[1]) + fullMore
	}
	for name := range c.CallMicros {
		if c.KeyBytes[name] == 0 { // a variant of a benchmark, such as the one with a ban
			delete(c.CallMicros, name)
		}
	}
	if len(c.CallMicros) == 0 || len(c.CallMicros) != len(c.KeyBytes) {
		return fmt.Errorf("the benchmarks of the Redis store report the time of %d algorithms and the memory of %d:\n%s",
			len(c.CallMicros), len(c.KeyBytes), printed)
	}
	return nil
}

func number(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64) // the pattern has digits
	return v
}

func micros(d time.Duration) float64 { return rounded(d.Seconds()*1e6, 10) }

func rounded(v, per float64) float64 { return math.Round(v*per) / per }
