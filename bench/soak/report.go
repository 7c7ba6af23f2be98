package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

func at(lat []time.Duration, q float64) string {
	if len(lat) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", lat[int(q*float64(len(lat)-1))].Seconds()*1e3)
}

// report prints the results and returns why the soak failed, if it did.
func report(w io.Writer, s *settings, f *fleet, book *ledger, phases []*phase, took time.Duration) error {
	lines := book.lines()
	fmt.Fprintf(w, "# Soak\n\nSeed %d, %v, %d requests/s from %d clients, %d classes of %d users, limit %d; %d cores "+
		"shared by everything.\n\n",
		s.seed, took.Round(time.Second), s.rate, s.clients, len(classes), s.users, s.limit, runtime.NumCPU())
	errs := reportFaults(w, phases)
	errs = append(errs, reportRequests(w, f, book)...)
	errs = append(errs, reportAccount(w, lines)...)
	errs = append(errs, compare(w, f, lines, killed(phases))...)
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(w, "\nFAILED: %v\n", err)
		return errors.New("failed; see the report")
	}
	fmt.Fprintln(w, "\nThe account closes and every request was answered.")
	return nil
}

func reportFaults(w io.Writer, phases []*phase) (errs []error) {
	fmt.Fprintln(w, "| at s | fault | what happened | answers | p50 ms | p99 ms | p99.9 ms | degraded | normal after | "+
		"lost in flight | failed |\n|---|---|---|---|---|---|---|---|---|---|---|")
	for _, p := range phases {
		slices.Sort(p.lat)
		var modes []string
		for _, m := range slices.Sorted(maps.Keys(p.degraded)) {
			modes = append(modes, fmt.Sprintf("%s %d", m, p.degraded[m]))
		}
		if len(modes) == 0 {
			modes = []string{"0"}
		}
		fmt.Fprintf(w, "| %.0f | %s | %s | %d | %s | %s | %s | %s | %s | %d | %d |\n", p.began.Sub(phases[0].began).Seconds(),
			p.name, p.what, len(p.lat),
			at(p.lat, 0.5), at(p.lat, 0.99), at(p.lat, 0.999), strings.Join(modes, ", "), p.back(), p.excused, p.failed)
		if p.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	return errs
}

func reportRequests(w io.Writer, f *fleet, book *ledger) (errs []error) {
	book.mu.Lock()
	defer book.mu.Unlock()
	fmt.Fprintf(w, "\nUnanswered: %d in flight on a killed node (allowed), %d others. Repeats with the same id: %d, of "+
		"which %d got the stored answer.\n",
		book.excused, sum(book.failures), book.repeats, book.replayed)
	for _, why := range slices.Sorted(maps.Keys(book.failures)) {
		errs = append(errs, fmt.Errorf("%d × %s", book.failures[why], why))
	}
	fmt.Fprintln(w, "\nBy the nodes' own counters (a killed node takes its last moments with it):")
	for _, family := range []string{"sluice_degraded_total", "sluice_account_units_total",
		"sluice_account_doubt_units_total", "sluice_local_spent_units_total", "sluice_local_settled_units_total",
		"sluice_breaker_opened_total", "sluice_reload_failures_total", "sluice_panics_total"} {
		totals := f.totals(family)
		for _, labels := range slices.Sorted(maps.Keys(totals)) {
			fmt.Fprintf(w, "- `%s%s` %.0f\n", family, labels, totals[labels])
		}
	}
	return errs
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func reportAccount(w io.Writer, lines []line) (errs []error) {
	fmt.Fprint(w, "\nIn units: admitted = held + lost − unheard − repaid + open + local + rest.\n\n",
		"| class | ids | asked | admitted | held | lost | unheard | in doubt | repaid | open | local | denied: limit, "+
			"closed, local | unanswered | rest |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	var all line
	row := func(name, ids string, l *line) {
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d, %d, %d | %d | %d |\n", name, ids,
			l.asked, l.admitted(),
			l.held, l.lost, l.unheard, l.doubt, l.repaid, l.open, l.local, l.byLimit, l.byClosed, l.locally, l.unanswered,
			l.rest)
	}
	for i := range lines {
		l := &lines[i]
		if l.lease {
			fmt.Fprintf(w, "| %s | yes | %d | %d | leases: taken and released, not part of the sum |||||||||| \n", l.name,
				l.asked, l.admitted())
			continue
		}
		ids := "no"
		if l.ids {
			ids = "yes"
		}
		row(l.name, ids, l)
		all.add(&l.account)
		all.rest += l.rest
		if l.rest != 0 {
			errs = append(errs, fmt.Errorf("%s does not close: %d units are left over", l.name, l.rest))
		}
	}
	row("all", "", &all)
	return errs
}

// killed reports whether a node was killed, so that its last figures are unknown.
func killed(phases []*phase) bool {
	return slices.ContainsFunc(phases, func(p *phase) bool { return p.name == "node-kill" })
}

// compare compares the nodes' metrics with the answers that clients got. They must be equal
// unless a node was killed.
func compare(w io.Writer, f *fleet, lines []line, killed bool) (errs []error) {
	var store, open, local, repaid int64
	for i := range lines {
		l, n := &lines[i], int64(1)
		if l.wide {
			n = 2 // each of its two rules spends
		}
		store, open, local, repaid = store+n*l.store, open+n*l.open, local+n*l.local, repaid+l.repaid
	}
	fmt.Fprintln(w, "\nAdmitted, in units of every limit: as the clients heard it, and as the nodes counted it.\n\n| by "+
		"| clients | nodes |\n|---|---|---|")
	for _, row := range []struct {
		by    string
		heard int64
	}{{"store", store}, {"open", open}, {"local", local}} {
		counted := f.admitted(row.by)
		fmt.Fprintf(w, "| %s | %d | %d |\n", row.by, row.heard, counted)
		if counted != row.heard && !killed {
			errs = append(errs, fmt.Errorf("the nodes count %d units admitted by %s, the clients heard %d", counted, row.by,
				row.heard))
		}
	}
	fmt.Fprintf(w, "\nOf what was admitted locally the audits found %d units charged afterwards; the nodes say %d "+
		"charged, %d perhaps, %d no longer counted, %d given up.\n",
		repaid, f.settled("reconciled"), f.settled("doubtful"), f.settled("expired"), f.settled("dropped"))
	if charged := f.settled("reconciled"); !killed && (repaid < charged || repaid > charged+f.settled("doubtful")) {
		errs = append(errs, fmt.Errorf("the nodes charged %d units afterwards, the audits found %d", charged, repaid))
	}
	return errs
}
