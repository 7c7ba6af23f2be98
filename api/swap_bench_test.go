package api

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// catalogue is n rules on n routes.
func catalogue(n int) []rules.Rule {
	out := make([]rules.Rule, n)
	for i := range out {
		r := perUser(fmt.Sprintf("r%d", i), 1_000_000_000)
		route := fmt.Sprintf("/v1/things/%d", i)
		r.ID, r.Route = int64(i+1), &route
		out[i] = r
	}
	return out
}

// BenchmarkCheckWhileSwapping is how long checks take, in a process of their
// own, while a set of 100,000 rules is compiled anew and swapped once a second,
// and while it is not: the figures are the 50th, 99th and 99.9th percentile and
// the longest.
func BenchmarkCheckWhileSwapping(b *testing.B) {
	all := catalogue(100_000)
	set, err := match.Compile(all, 1, match.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, swapping := range []bool{false, true} {
		b.Run(fmt.Sprintf("swapping=%v", swapping), func(b *testing.B) {
			f := newFixture(b, nil, func(o *decide.CheckerOptions, _ *Deps) {
				o.Store, o.Observe = o.Store.(*faultStore).Store,
					nil
			})
			sets := &f.sets
			sets.Store(set)
			stop, stopped := make(chan struct{}), make(chan int)
			go func() {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				swaps := 0
				for {
					select {
					case <-stop:
						stopped <- swaps
						return
					case <-tick.C:
					}
					if !swapping {
						continue
					}
					next, err := match.Compile(all, int64(swaps+2), match.Options{})
					if err != nil {
						b.Error(err)
						continue
					}
					sets.Store(next)
					swaps++
				}
			}()
			took := make([]time.Duration, 0, 1<<22)
			q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{Method: "POST", User: "42"}, Weight: 1}
			var a decide.Answer
			routes := make([]string, 1000)
			for i := range routes {
				routes[i] = fmt.Sprintf("/v1/things/%d", i*97)
			}
			for i := 0; b.Loop(); i++ {
				q.Descriptor.Route = routes[i%len(routes)]
				start := time.Now()
				if err := f.checker.Do(b.Context(), &q, &a); err != nil || len(a.Limits) != 1 {
					b.Fatal(err, a)
				}
				took = append(took, time.Since(start))
			}
			close(stop)
			swaps := <-stopped
			slices.Sort(took)
			at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
			b.ReportMetric(float64(swaps), "swaps")
			b.ReportMetric(at(0.5), "p50-µs")
			b.ReportMetric(at(0.99), "p99-µs")
			b.ReportMetric(at(0.999), "p99.9-µs")
			b.ReportMetric(at(1)/1e3, "longest-ms")
		})
	}
}
