//go:build measure

package app

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"sluice/internal/region/matrix"
)

var (
	regionPage  = flag.String("regions-page", "", "page whose parts cells and path are written anew")
	regionCells = flag.String("regions-cells", "", "file with the figures in virtual time")
)

// realCell is a cell, and what is let through too much on real processes, in percent of the limit.
type realCell struct {
	matrix.Cell
	real float64
}

// Twelve cells of the matrix on real processes agree with those in virtual time within two points.
func TestMeasureRegionCells(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	const limit, windows = 500, 3
	g.rule("POST", "/ratelimit/rules", fmt.Sprintf(`{"name":"cell","route":"/cell","scope":"user","span":"global",
		"fail_mode":"closed","algorithm":"fixed_window","window_ms":10000,"limit":%d}`, limit))
	g.everywhere("the rule", func(doc map[string]any) bool { return doc["remaining"] == float64(limit) },
		`{"user":"nobody","route":"/cell","weight":0}`)
	var measured []*realCell
	for _, delay := range matrix.Delays {
		g.set(everyLink, func(p *toxiproxy.Proxy) {
			p.Toxics.ResetToxics(t.Context())
			for _, stream := range []string{"upstream", "downstream"} {
				toxic(t, p, fmt.Sprintf(`{"name":%[1]q,"stream":%[1]q,"type":"latency","attributes":{"latency":%[2]d}}`, stream,
					delay.Milliseconds()))
			}
		})
		g.degraded(g.names, nil)
		var wg sync.WaitGroup
		for _, of := range matrix.Read(t, *regionCells) {
			c := &realCell{Cell: of}
			if c.Mode != "global" || c.Window != 10*time.Second || c.Delay != delay || c.Split == "one region" ||
				c.Demand != 1.2 && c.Demand != 4 {
				continue
			}
			user := fmt.Sprintf("cell-%d", len(measured))
			measured = append(measured, c)
			wg.Go(func() { c.real = g.cell(user, c.Demand*limit/10, c.Parts(), limit, windows) })
		}
		wg.Wait()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Twelve cells on real processes: six nodes, three Redis, proxies that delay both ways; a limit of "+
		"%d, the mean of %d windows of 10 s. Load of the machine at the end: %s.\n\n| demand | split | delay ms | "+
		"virtual time %% | real processes %% | bound %% |\n|---|---|---|---|---|---|\n", limit, windows, loadOfMachine())
	for _, c := range measured {
		fmt.Fprintf(&b, "| %g | %s | %d | %.1f | %.1f | %.1f |\n", c.Demand, c.Split, c.Delay.Milliseconds(), c.Over, c.real,
			c.Bound)
		if math.Abs(c.real-c.Over) > 2 {
			t.Errorf("%+v: %.1f points apart", c, c.real-c.Over)
		}
	}
	if len(measured) != 12 {
		t.Errorf("%d cells, want 12", len(measured))
	}
	t.Log("\n" + b.String())
	matrix.WritePart(t, *regionPage, "cells", b.String())
}

// cell runs one cell and returns what was let through too much, in percent.
func (g *globe) cell(user string, rate float64, parts []float64, limit, windows int) (over float64) {
	const window = 10 * time.Second
	first := time.Now().Truncate(window).Add(window)
	pause(time.Until(first))
	admitted := make([]int, windows)
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i, part := range parts {
		every := time.Duration(float64(time.Second) / (rate * part))
		wg.Go(func() {
			for n := 0; ; n++ {
				at := time.Duration(n)*every + every*time.Duration(i)/3
				if at >= time.Duration(windows)*window-20*time.Millisecond {
					return
				}
				pause(time.Until(first.Add(at)))
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					_, doc, err := g.ask(context.Background(), g.node(g.names[i], n%2), "POST", "/ratelimit/check",
						fmt.Sprintf(`{"user":%q,"route":"/cell"}`, user))
					if err != nil {
						g.t.Error(err)
					} else if doc["allowed"] == true {
						mu.Lock()
						admitted[min(int(time.Since(first)/window), windows-1)]++
						mu.Unlock()
					}
				})
			}
		})
	}
	wg.Wait()
	for _, n := range admitted {
		over += 100 * float64(max(0, n-limit)) / float64(limit) / float64(windows)
	}
	return over
}

// loadOfMachine is the load average, as other work shares the cores.
func loadOfMachine() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(raw))[0] + fmt.Sprintf(" on %d cores", runtime.NumCPU())
}

// cpuOf is the CPU time that a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// path is one round of checks.
type path struct {
	server, redis, p99 float64 // µs a check, µs a check, ms
}

// What a check of a global rule costs beside one of a region's, and how long it takes while 10,000 buckets change.
func TestMeasureRegionPath(t *testing.T) {
	g := newGlobe(t, globeOptions{})
	for _, span := range []string{"region", "global"} {
		// Of the greater limit, what is spent here is not worth telling the other regions.
		for name, limit := range map[string]int{span: 1_000_000, span + "-told": 6000} {
			g.rule("POST", "/ratelimit/rules", fmt.Sprintf(`{"name":"path-%[1]s","route":"/%[1]s","scope":"user","span":%[2]q,
				"fail_mode":"closed","algorithm":"sliding_window_counter","window_ms":60000,"limit":%[3]d}`, name, span, limit))
			g.everywhere("the rule", func(doc map[string]any) bool { return doc["remaining"] == float64(limit) },
				fmt.Sprintf(`{"user":"nobody","route":"/%s","weight":0}`, name))
		}
		for batch := range 100 {
			g.some(t.Context(), batch, span+"-told", 30)
		}
	}
	const rounds = 9
	var b strings.Builder
	fmt.Fprintf(&b, "| | server CPU µs a check | Redis CPU µs a check | p99 ms |\n|---|---|---|---|\n")
	ratios := map[string][3]float64{}
	for _, kind := range []struct {
		name  string
		users int
		churn bool
		told  string
	}{
		{"50 keys", 50, false, ""}, {"10,000 keys", 10_000, false, ""},
		{"while 10,000 other buckets change", 50, true, ""}, {"while 10,000 others change and are sent", 50, true, "-told"},
	} {
		all := map[string][]path{}
		var of [3][]float64
		for range rounds {
			for _, span := range []string{"region", "global"} {
				stop := func() {}
				if kind.churn {
					stop = g.churn(span + kind.told)
				}
				all[span] = append(all[span], g.path(span, kind.users))
				stop()
			}
			r, s := all["region"][len(all["region"])-1], all["global"][len(all["global"])-1]
			for i, v := range []float64{s.server / r.server, s.redis / r.redis, s.p99 / r.p99} {
				of[i] = append(of[i], v)
			}
		}
		middle := func(vs []float64) float64 { slices.Sort(vs); return vs[len(vs)/2] }
		figure := func(span string, f func(path) float64) float64 {
			var vs []float64
			for _, p := range all[span] {
				vs = append(vs, f(p))
			}
			return middle(vs)
		}
		for _, span := range []string{"region", "global"} {
			fmt.Fprintf(&b, "| %s, `%s` | %.1f | %.1f | %.2f |\n", kind.name, span,
				figure(span, func(p path) float64 { return p.server }), figure(span, func(p path) float64 { return p.redis }),
				figure(span, func(p path) float64 { return p.p99 }))
		}
		ratios[kind.name] = [3]float64{middle(of[0]), middle(of[1]), middle(of[2])}
		fmt.Fprintf(&b, "| ratio, median of %d rounds | %.2f | %.2f | %.2f |\n", rounds, ratios[kind.name][0],
			ratios[kind.name][1], ratios[kind.name][2])
	}
	text := fmt.Sprintf("One node, sixteen callers, one check a request, %d rounds of a second in turn; with the work "+
		"of the exchange. Load of the machine at the end: %s.\n\n", rounds, loadOfMachine()) + b.String()
	t.Log("\n" + text)
	matrix.WritePart(t, *regionPage, "path", text)
}

// path checks for a second and returns what it cost.
func (g *globe) path(span string, users int) path {
	pid, err := g.redis["eu"].Command(g.t.Context(), "INFO", "server")
	if err != nil {
		g.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(pid, "process_id:")
	digits, _, _ := strings.Cut(rest, "\r")
	redis, err := strconv.Atoi(digits)
	if err != nil {
		g.t.Fatal(err)
	}
	node := g.node("eu", 0)
	server := node.proc.Pid
	beginServer, beginRedis := cpuOf(g.t, server), cpuOf(g.t, redis)
	end := time.Now().Add(time.Second)
	var mu sync.Mutex
	var lat []time.Duration
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			var own []time.Duration
			for n := worker * 7919; time.Now().Before(end); n++ {
				start := time.Now()
				_, doc, err := g.ask(context.Background(), node, "POST", "/ratelimit/check",
					fmt.Sprintf(`{"user":"u%d","route":"/%s"}`, n%users, span))
				if err != nil || doc["allowed"] != true {
					g.t.Error(err, doc)
					return
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			lat = append(lat, own...)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(lat)
	n := float64(len(lat))
	return path{
		server: float64((cpuOf(g.t, server) - beginServer).Microseconds()) / n,
		redis:  float64((cpuOf(g.t, redis) - beginRedis).Microseconds()) / n,
		p99:    float64(lat[len(lat)*99/100].Microseconds()) / 1000,
	}
}

// churn changes 10,000 buckets in turn, as fast as one caller can, until it is stopped.
func (g *globe) churn(route string) (stop func()) {
	ctx, cancel := context.WithCancel(g.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for batch := 0; ctx.Err() == nil; batch++ {
			g.some(ctx, batch%100, route, 1)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// some checks a hundred of the 10,000 users of churn.
func (g *globe) some(ctx context.Context, batch int, route string, weight int) {
	checks := make([]string, 100)
	for i := range checks {
		checks[i] = fmt.Sprintf(`{"user":"churn%d","route":"/%s","weight":%d}`, batch*100+i, route, weight)
	}
	body := `{"checks":[` + strings.Join(checks, ",") + `]}`
	if _, _, err := g.ask(ctx, g.node("eu", 1), "POST", "/ratelimit/check/batch", body); err != nil && ctx.Err() == nil {
		g.t.Error(err)
	}
}
