package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// latencies are percentiles of one run.
type latencies struct{ p50, p99, p999 time.Duration }

func summarize(lat []time.Duration) latencies {
	if len(lat) == 0 {
		return latencies{}
	}
	slices.Sort(lat)
	at := func(q float64) time.Duration { return lat[int(q*float64(len(lat)-1))] }
	return latencies{p50: at(0.5), p99: at(0.99), p999: at(0.999)}
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

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }
func us(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e6) }

func report(w io.Writer, s settings, scenarios []scenario, results []result) {
	fmt.Fprintf(w, "%d cores, %s, %d connections, %d users, median of %d rounds of %d s; client, server and Redis share the cores.\n\n",
		runtime.NumCPU(), runtime.Version(), s.conns, s.keys, s.rounds, s.seconds)
	fmt.Fprintf(w, "| scenario | requests/s | server CPU µs | Redis CPU µs | p50 ms | p99 ms | p50 ms at %[1]d/s | p99 ms at %[1]d/s |\n|---|---|---|---|---|---|---|---|\n", s.rate)
	for i, r := range results {
		redis := "–"
		if scenarios[i].redis {
			redis = us(median(r, func(m measurement) time.Duration { return m.redisCPU }))
		}
		fmt.Fprintf(w, "| %s | %.0f | %s | %s | %s | %s | %s | %s |\n", scenarios[i].name,
			median(r, func(m measurement) float64 { return m.perSecond }),
			us(median(r, func(m measurement) time.Duration { return m.serverCPU })), redis,
			ms(median(r, func(m measurement) time.Duration { return m.closed.p50 })),
			ms(median(r, func(m measurement) time.Duration { return m.closed.p99 })),
			ms(median(r, func(m measurement) time.Duration { return m.open.p50 })),
			ms(median(r, func(m measurement) time.Duration { return m.open.p99 })))
	}
}
