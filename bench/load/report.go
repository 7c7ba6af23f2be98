package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// latencies are percentiles of one run.
type latencies struct{ p50, p99, p999 time.Duration }

// summarize sorts lat.
func summarize(lat []time.Duration) latencies {
	if len(lat) == 0 {
		return latencies{}
	}
	slices.Sort(lat)
	return latencies{p50: quantile(lat, 0.5), p99: quantile(lat, 0.99), p999: quantile(lat, 0.999)}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

// median picks the middle value of one figure over all rounds.
func median[T int64 | float64 | time.Duration](r result, figure func(measurement) T) T {
	vs := make([]T, len(r.rounds))
	for i, m := range r.rounds {
		vs[i] = figure(m)
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

func perSecond(m measurement) float64          { return m.perSecond }
func serverCPU(m measurement) time.Duration    { return m.serverCPU }
func openCPU(m measurement) time.Duration      { return m.openCPU }
func redisCPU(m measurement) time.Duration     { return m.redisCPU }
func openMedian(m measurement) time.Duration   { return m.open.p50 }
func openTail(m measurement) time.Duration     { return m.open.p99 }
func closedMedian(m measurement) time.Duration { return m.closed.p50 }
func closedTail(m measurement) time.Duration   { return m.closed.p99 }
func withoutStore(m measurement) float64       { return m.degraded }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }
func us(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e6) }

// report prints the tables, and writes page and pictures if asked to.
func report(s settings, results []result, missing map[kind]error, memory []bar) error {
	var b bytes.Buffer
	table(&b, s, results)
	ratios(&b, results)
	for _, k := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(&b, "\n%s could not be built on this machine and is left out.\n", k)
	}
	if s.out != "" {
		pictures, err := draw(s, results, memory)
		if err != nil {
			return err
		}
		b.WriteString(pictures)
	}
	return s.section("peers", b.String())
}

func table(w io.Writer, s settings, results []result) {
	gc := "each with its own collector settings"
	if s.gogc != "" {
		gc = "every server with GOGC=" + s.gogc
	}
	fmt.Fprintf(w, "%d cores, %s, %d connections, %d users, %s, median of %d rounds of %d s. Client, server and Redis "+
		"share the cores. "+
		"In the rows with gRPC, %d callers share %d connections, as the requests of an Envoy do. Their client is as cheap "+
		"as Envoy's: it sends frames of HTTP/2 that are encoded in advance and reads the status and the code of every "+
		"answer. A full client of gRPC would use as much CPU as the servers.\n\n",
		runtime.NumCPU(), runtime.Version(), s.conns, s.keys, gc, s.rounds, s.seconds, grpcCallers, grpcConns)
	fmt.Fprintf(w, "| scenario | checks/s | server CPU µs | Redis CPU µs | p50 ms | p99 ms | p50 ms at %[1]d/s | "+
		"p99 ms at %[1]d/s | server CPU µs at %[1]d/s |\n|---|---|---|---|---|---|---|---|---|\n", s.rate)
	defer func() {
		for _, r := range results {
			if r.scenario.hot {
				fmt.Fprintf(w, "\n%s: %.2f µs of the client's CPU a check.\n", r.scenario.name,
					median(r, func(m measurement) float64 { return m.clientCPU.Seconds() })*1e6)
			}
		}
	}()
	for _, r := range results {
		redis, p50, p99, cpu := "–", "–", "–", "–"
		if r.scenario.needsRedis() {
			redis = us(median(r, redisCPU))
		}
		if r.scenario.openLoop() {
			p50, p99, cpu = ms(median(r, openMedian)), ms(median(r, openTail)), us(median(r, openCPU))
		}
		fmt.Fprintf(w, "| %s | %.0f | %s | %s | %s | %s | %s | %s | %s |\n", r.shown(), median(r, perSecond),
			us(median(r, serverCPU)), redis, ms(median(r, closedMedian)), ms(median(r, closedTail)), p50, p99, cpu)
	}
}

// shown is the name of the scenario, with the part of the checks that a fail mode decided.
func (r *result) shown() string {
	if share := median(*r, withoutStore); share >= 0.001 {
		return fmt.Sprintf("%s (%.1f %% by a fail mode)", r.scenario.name, share*100)
	}
	return r.scenario.name
}

// comparison relates a figure of scenario a to the same figure of scenario b.
type comparison struct {
	text, a, b, goal string
	figure           func(measurement) float64
}

var comparisons = []comparison{
	{"throughput, one rule to envoyproxy/ratelimit", oneOnRedis, envoy, "at least 3.5", perSecond},
	{"throughput, one rule to naive", oneOnRedis, naivePath, "at least 1.8", perSecond},
	{"server CPU, one rule to constant answer", oneOnRedis, constant, "at most 0.7", cpuFigure},
	{"server CPU, one rule to the same without the loop", oneOnRedis, withoutLoop, "–", cpuFigure},
	{"throughput, one rule to the same without the loop", oneOnRedis, withoutLoop, "–", perSecond},
	{"server CPU, one rule, a token and ten headers to constant answer", withToken, constant, "at most 1.2", cpuFigure},
	{"server CPU, one rule to constant answer, 8 connections", oneOnRedis + with8, constant + with8, "at most 1.25",
		cpuFigure},
	{"server CPU, one rule to constant answer, 512 connections", oneOnRedis + with512, constant + with512,
		"at most 0.65", cpuFigure},
	{"server CPU, one rule, GOMAXPROCS=1 to the default", oneProcessor, oneOnRedis, "–", cpuFigure},
	{"throughput, one rule, GOMAXPROCS=1 to the default", oneProcessor, oneOnRedis, "–", perSecond},
	{"p99, one rule, GOMAXPROCS=1 to the default", oneProcessor, oneOnRedis, "–", closedTailFigure},
	{"server CPU, embedded, one rule to constant answer", embeddedOne, constant, "at most 0.5", cpuFigure},
	{"server CPU, constant answer, fasthttp to Echo", constantFast, constant, "–", cpuFigure},
	{"server CPU, forward to JSON check", forwardFace, oneOnRedis, "at most 1.2", cpuFigure},
	{"server CPU, ext_authz to JSON check", extAuthzFace, oneOnRedis, "at most 1.2", cpuFigure},
	{"throughput, gRPC by tree to envoyproxy/ratelimit, gRPC", grpcTree, envoyGRPC, "at least 3", perSecond},
	{"server CPU, gRPC by tree to constant answer, gRPC", grpcTree, constantGRPC, "at most 0.8", cpuFigure},
	{"server CPU, gRPC by tree to JSON check", grpcTree, oneOnRedis, "at most 1.0", cpuFigure},
	{"server CPU, gRPC by tree to by facts", grpcTree, grpcFacts, "0.95 to 1.05", cpuFigure},
	{"server CPU, gRPC ext_authz to JSON check", grpcAuthz, oneOnRedis, "–", cpuFigure},
	{"server CPU, constant answer, gRPC to constant answer, Echo", constantGRPC, constant, "–", cpuFigure},
	{"throughput, one rule to bare coalescer", oneOnRedis, bare, "–", perSecond},
	{"server CPU, bare coalescer to constant answer", bare, constant, "–", cpuFigure},
	{"server CPU, three rules to constant answer", threeRules, constant, "at most 1.0", cpuFigure},
	{"server CPU, a rule with a ban to the same without", ruleBan, ruleAlone, "at most 1.15", cpuFigure},
	{"Redis CPU, a rule with a ban to the same without", ruleBan, ruleAlone, "at most 1.25", redisFigure},
	{"server CPU, a rule with a delay to the same without", ruleDelay, ruleAlone, "at most 1.05", cpuFigure},
	{"Redis CPU, a rule with a delay to the same without", ruleDelay, ruleAlone, "at most 1.10", redisFigure},
	{"server CPU, a rule that replaces another to the rule alone", ruleReplaces, ruleAlone, "at most 1.05", cpuFigure},
	{"Redis CPU, a rule that replaces another to the rule alone", ruleReplaces, ruleAlone, "at most 1.10", redisFigure},
	{"server CPU, a calendar with a time of day to one without", ruleDailyAt, ruleDaily, "at most 1.05", cpuFigure},
	{"Redis CPU, a calendar with a time of day to one without", ruleDailyAt, ruleDaily, "at most 1.10", redisFigure},
	{"server CPU, a pool that sheds to the same that does not", ruleShed, rulePool, "at most 1.15", cpuFigure},
	{"Redis CPU, a pool that sheds to the same that does not", ruleShed, rulePool, "at most 1.25", redisFigure},
	{"server CPU, a pool that sheds to none", ruleShed, ruleAlone, "–", cpuFigure},
	{"Redis CPU, a pool that sheds to none", ruleShed, ruleAlone, "–", redisFigure},
	{"server CPU, decision log of everything in Kafka to none", logAllKafka, logOff, "–", cpuFigure},
	{"p99 at a fixed rate, decision log of everything in Kafka to none", logAllKafka, logOff, "at most 1.15", tailFigure},
	{"server CPU, decision log of 1 % in Kafka to none", logSomeKafka, logOff, "at most 1.03", cpuFigure},
	{"p99 at a fixed rate, decision log of 1 % in Kafka to none", logSomeKafka, logOff, "–", tailFigure},
	{"server CPU, decision log of everything in files to none", logAllFile, logOff, "–", cpuFigure},
	{"p99 at a fixed rate, decision log of everything in files to none", logAllFile, logOff, "–", tailFigure},
	{"server CPU, 10,000 networks to none", perNetwork, perAddress, "at most 1.15", cpuFigure},
	{"Redis CPU, 10,000 networks to none", perNetwork, perAddress, "at most 1.25", redisFigure},
	{"server CPU, shared Go client to a client each", goShared, goAlone, "–", cpuFigure},
	{"p50, shared Go client to a client each", goShared, goAlone, "at most 1.2",
		func(m measurement) float64 { return m.closed.p50.Seconds() }},
	{"throughput, 64 callers of one key, near to shared", goNear, goHot, "at least 30", perSecond},
	{"client CPU, 64 callers of one key, near to shared", goNear, goHot, "–",
		func(m measurement) float64 { return m.clientCPU.Seconds() }},
	{"p50 at a fixed rate, one rule to naive", oneOnRedis, naivePath, "at most 1.1",
		func(m measurement) float64 { return m.open.p50.Seconds() }},
}

// ratios returns the median of the ratios within each round, so that a slow phase of the machine
// affects both sides.
func ratios(w io.Writer, results []result) {
	find := func(name string) *result {
		for i := range results {
			if results[i].scenario.name == name {
				return &results[i]
			}
		}
		return nil
	}
	fmt.Fprint(w, "\n| ratio, round by round | median | goal |\n|---|---|---|\n")
	for _, c := range comparisons {
		a, b := find(c.a), find(c.b)
		if a == nil || b == nil {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", c.text, ratio(a, b, c.figure), c.goal)
	}
}

// ratio returns the ratio of a figure of a to the same figure of b in each round: the median, the least and the
// greatest.
func ratio(a, b *result, figure func(measurement) float64) string {
	vs := make([]float64, len(a.rounds))
	for i := range vs {
		vs[i] = figure(a.rounds[i]) / figure(b.rounds[i])
	}
	slices.Sort(vs)
	n := len(vs)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", (vs[(n-1)/2]+vs[n/2])/2, vs[0], vs[n-1])
}

func cpuFigure(m measurement) float64        { return m.serverCPU.Seconds() }
func tailFigure(m measurement) float64       { return m.open.p99.Seconds() }
func closedTailFigure(m measurement) float64 { return m.closed.p99.Seconds() }
func redisFigure(m measurement) float64      { return m.redisCPU.Seconds() }

// draw writes the pictures into the folder named like the page and returns the text that shows
// them.
func draw(s settings, results []result, memory []bar) (string, error) {
	folder := strings.TrimSuffix(s.out, filepath.Ext(s.out))
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documentation
		return "", err
	}
	var b strings.Builder
	for _, p := range []struct{ file, title, svg string }{
		{"throughput.svg", "Checks a second",
			bars("Checks a second, closed loop", barsOf(results, func(r result) float64 { return median(r, perSecond) }, true),
				"%.0f")},
		{"cpu.svg", "CPU a check", bars("Server CPU a check, µs",
			barsOf(results, func(r result) float64 { return median(r, serverCPU).Seconds() * 1e6 }, false), "%.1f")},
		{"latency.svg", "Latency", distribution(fmt.Sprintf("Latency at %d checks a second, by percentile", s.rate),
			results)},
		{"bytes.svg", "Bytes a key", bars("Redis memory a bucket with one request, bytes", memory, "%.0f")},
	} {
		//nolint:gosec // documentation
		if err := os.WriteFile(filepath.Join(folder, p.file), []byte(p.svg), 0o644); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n![%s](%s/%s)\n", p.title, filepath.Base(folder), p.file)
	}
	return b.String(), nil
}
