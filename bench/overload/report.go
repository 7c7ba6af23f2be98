package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// leastChecks is the number of checks that a case of load must have.
const leastChecks = 12_000

// row is a case that was measured.
type row struct {
	name string
	measured
	capacity int    // 0 if the case is not compared with it
	note     string // a remark that no column contains
	goals    []goal
}

// goal is a target and whether it is met.
type goal struct {
	text string
	met  bool
}

func atMost(what string, got, limit float64) goal {
	return goal{what + " " + figure(got) + ", at most " + figure(limit), got <= limit}
}

func atLeast(what string, got, limit float64) goal {
	return goal{what + " " + figure(got) + ", at least " + figure(limit), got >= limit}
}

// figure is a number with up to three digits after its point.
func figure(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// progress says on the terminal what is measured.
func progress(name string) { fmt.Fprintln(os.Stderr, name) }

// missed lists the targets that were not met.
func missed(rows []row) (out []string) {
	for i := range rows {
		for _, g := range rows[i].goals {
			if !g.met {
				out = append(out, rows[i].name+": "+g.text)
			}
		}
	}
	return out
}

// report writes the table.
func report(w io.Writer, rows []row) {
	fmt.Fprintf(w, "%d cores, %s, load average %s at the end. Client, node and Redis share the cores.\n\n",
		runtime.NumCPU(), runtime.Version(), loadAverage())
	fmt.Fprint(w, "| case | checks | fail modes | overloaded | breaker opened | starved | decided/s | "+
		"p50, p99, p99.9 ms | note | targets |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range rows {
		rows[i].write(w)
	}
}

func (r *row) write(w io.Writer) {
	t, note := r.tally, r.note
	rate := fmt.Sprintf("%.0f", t.rate())
	if r.capacity > 0 {
		rate += fmt.Sprintf(" (%.2f × %d)", t.rate()/float64(r.capacity), r.capacity)
	}
	if t.unplaced > 0 {
		note = join(note, fmt.Sprintf("%d found no connection", t.unplaced))
	}
	if lag := quantile(t.lag, 0.99); lag >= 5*time.Millisecond {
		note = join(note, fmt.Sprintf("1 %% were sent more than %.0f ms late by the client", milliseconds(lag)))
	}
	var goals []string
	for _, g := range r.goals {
		if g.met {
			goals = append(goals, g.text)
		} else {
			goals = append(goals, "**missed:** "+g.text)
		}
	}
	fmt.Fprintf(w, "| %s | %d | %s | %s (%.0f by the node) | %.0f | %.0f | %s | %s | %s | %s |\n", r.name, t.answered(),
		percent(t.share(byFailMode)), percent(t.share(overloaded)), r.overloaded, r.breaker, r.starved, rate,
		latencies(t.took), orDash(note), orDash(strings.Join(goals, "; ")))
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

func latencies(took []time.Duration) string {
	if len(took) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f, %.1f, %.1f", milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)),
		milliseconds(quantile(took, 0.999)))
}

func join(a, b string) string { return strings.TrimPrefix(a+"; "+b, "; ") }

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// loadAverage is the load average of the last minute.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return orDash(first)
}
