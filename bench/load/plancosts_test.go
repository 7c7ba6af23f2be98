package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/capacity"
)

// measuredAs is a result of a scenario with these CPU times, µs.
func measuredAs(name string, node, redis float64) result {
	us := func(v float64) time.Duration { return time.Duration(v * 1000) }
	return result{scenario: scenario{name: name}, rounds: []measurement{{serverCPU: us(node), redisCPU: us(redis)}}}
}

const printedByStore = `
BenchmarkMemory/fixed_window/plain=false-2  1  9 ns/op  119.04 bytes/key
BenchmarkMemory/fixed_window/plain=true-2   1  9 ns/op  135 bytes/key
BenchmarkMemory/sliding_window_counter/plain=false-2  1  9 ns/op  135 bytes/key
BenchmarkMemory/sliding_window_buckets/plain=false-2  1  9 ns/op  151 bytes/key
BenchmarkMemory/sliding_window_log/plain=false-2  1  9 ns/op  247 bytes/key
BenchmarkMemory_Full/60_sub-windows-2  1  95788575 ns/op  168.0 bytes
BenchmarkScript_BatchesOf50/fixed_window-2  100  9 ns/op  3.52 redis-cpu-µs/check  3.7 redis-µs/check
BenchmarkScript_BatchesOf50/sliding_window_counter-2  100  9 ns/op  3.31 redis-cpu-µs/check  3.2 redis-µs/check
BenchmarkScript_BatchesOf50/sliding_window_buckets-2  100  9 ns/op  4.4 redis-cpu-µs/check  4.5 redis-µs/check
BenchmarkScript_BatchesOf50/sliding_window_log-2  100  9 ns/op  12.1 redis-cpu-µs/check  12.2 redis-µs/check
BenchmarkScript_BatchesOf50/no_ban-2  100  9 ns/op  3.3 redis-cpu-µs/check  3.2 redis-µs/check
`

func TestPlanCosts_FollowFromTheResults(t *testing.T) {
	results := []result{measuredAs(oneOnRedis, 27.7, 9.5), measuredAs(oneOnRedis+with8, 49.6, 24.1),
		measuredAs(oneOnRedis+with512, 24.9, 5.9), measuredAs(threeRules, 31.6, 19.2), measuredAs(batches, 5, 4.4)}
	old := &capacity.Costs{KeyBytes: map[string]float64{logAlgorithm: 624}}
	got, err := planCosts(old, results, printedByStore)
	if err != nil {
		t.Fatal(err)
	}
	if want := (&capacity.Costs{Measured: got.Measured, Connections: []capacity.ConnectionCost{
		{Connections: 8, Cost: capacity.Cost{Node: 49.6, Redis: 24.1}},
		{Connections: 64, Cost: capacity.Cost{Node: 27.7, Redis: 9.5}},
		{Connections: 512, Cost: capacity.Cost{Node: 24.9, Redis: 5.9}},
	}, FurtherRule: capacity.Cost{Node: 1.95, Redis: 4.85}, BatchMicros: 5, CallChecks: 50, CallMicros: map[string]float64{
		"fixed_window": 3.5, "sliding_window_counter": 3.3, "sliding_window_buckets": 4.4, "sliding_window_log": 12.1,
	}, KeyBytes: map[string]float64{
		"fixed_window": 119, "sliding_window_counter": 135, "sliding_window_buckets": 192, "sliding_window_log": 624,
	}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	text, err := got.Write()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := capacity.ReadCosts(text); err != nil || !reflect.DeepEqual(back, got) {
		t.Errorf("read back %+v, %v", back, err)
	}
	for i := range results {
		less := append(append([]result{}, results[:i]...), results[i+1:]...)
		if _, err := planCosts(old, less, printedByStore); err == nil ||
			!strings.Contains(err.Error(), results[i].scenario.name) {
			t.Errorf("without %q: %v", results[i].scenario.name, err)
		}
	}
	if _, err := planCosts(old, results, "PASS"); err == nil {
		t.Error("benchmarks that print nothing are no error")
	}
}

// The rows that a plan needs are measured, and the file is what Write makes.
func TestPlanCosts_NameScenarios(t *testing.T) {
	for _, name := range []string{oneOnRedis, oneOnRedis + with8, oneOnRedis + with512, threeRules, batches} {
		if len(selected(name)) != 1 {
			t.Errorf("there is no scenario %q", name)
		}
	}
	text, err := os.ReadFile("../" + costsPath)
	if err != nil {
		t.Fatal(err)
	}
	c, err := capacity.ReadCosts(text)
	if err != nil {
		t.Fatal(err)
	}
	written, err := c.Write()
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != string(text) {
		t.Errorf("%s should be\n%s", costsPath, written)
	}
}
