package history_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
	"sluice/rules"
)

// minutesOf are the known minutes of a rule, by their number since begin.
func (w *world) minutesOf(r *history.Reader, rule string, begin time.Time, d time.Duration) map[int]int64 {
	w.t.Helper()
	got, err := r.Stats(w.t.Context(), history.Query{Rule: rule, From: begin, To: begin.Add(d), Step: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[int]int64{}
	for i, p := range got.Series[0].Points {
		if p.Known {
			out[i] = p.Total()
		}
	}
	return out
}

// TestWriter_WritesEveryRuleOfABusyNode: also the last ones of more rules than a second for each MaxWritten of them has
// room for.
func TestWriter_WritesEveryRuleOfABusyNode(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	const many = 7000
	for second := range 5 * 60 {
		if second%60 == 30 {
			for i := range many {
				n.decide(fmt.Sprintf("rule-%05d", i), 1, 0)
			}
		}
		w.tick(n)
		w.add(time.Second)
	}
	for _, i := range []int{0, many / 2, many - 1} {
		got := w.minutesOf(w.reader, fmt.Sprintf("rule-%05d", i), begin, 3*time.Minute)
		for minute := range 3 {
			if got[minute] != 1 {
				t.Errorf("rule %d, minute %d: %d, want 1", i, minute, got[minute])
			}
		}
	}
}

// TestStats_WhatIsCompleteDoesNotChange: also of a rule whose rows are written last, after an outage of the database.
func TestStats_WhatIsCompleteDoesNotChange(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 50, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	const many = 450
	last := fmt.Sprintf("rule-%03d", many-1)
	for second := range 20 * 60 {
		if second%60 == 30 {
			for i := range many {
				n.decide(fmt.Sprintf("rule-%03d", i), 1, 0)
			}
		}
		w.store.Fail(nil)
		if second > 3*60 && second < 13*60 {
			w.store.Fail(rules.ErrUnavailable)
		}
		w.tick(n)
		w.add(time.Second)
		got, err := w.reader.Stats(t.Context(), history.Query{Rule: last, From: begin, To: w.now(), Step: time.Minute})
		if err != nil || got.Partial != nil {
			continue // before its first minute, and in the outage
		}
		for _, p := range got.Series[0].Points {
			if !p.At.Add(time.Minute).After(got.CompleteUntil) && p.Total() != 1 {
				t.Fatalf("at %s: complete until %s, but %s has %d, want 1", w.now(), got.CompleteUntil, p.At, p.Total())
			}
		}
	}
}

// TestStats_WaitForANodeThatAloneDoesNotReachTheDatabase for as long as it keeps its minutes, and not once it is dead.
func TestStats_WaitForANodeThatAloneDoesNotReachTheDatabase(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 5, 0, 0, time.UTC)
	w := newWorld(t, begin)
	w.start()
	lacks := historytest.NewStore(w.now)
	lacks.Fail(rules.ErrUnavailable)
	for name, wrote := range map[string]bool{"that has written": true, "that has written nothing": false} {
		t.Run("one "+name, func(t *testing.T) {
			w.made++
			alone := w.startOn(w.store, int64(w.made), "")
			if !wrote {
				alone = w.startOn(lacks, int64(w.made), "")
			}
			w.nodes = append(w.nodes, alone)
			w.run(5 * time.Minute)
			failed := w.now()
			if wrote {
				w.nodes[len(w.nodes)-1] = &node{poster: alone.poster, own: alone.own, live: alone.live, reader: alone.reader,
					writer: history.NewWriter(history.WriterOptions{Own: alone.own, Store: lacks, Now: w.now})}
			}
			ask := func() time.Duration {
				return w.ask(history.Query{From: begin, To: w.now(), Step: time.Minute}).CompleteUntil.Sub(failed)
			}
			w.run(30 * time.Minute)
			if got := ask(); got > 0 {
				t.Errorf("complete until %v after the failure of a node that goes on", got)
			}
			w.nodes = w.nodes[:len(w.nodes)-1] // it dies
			w.run(9 * time.Minute)
			if got := ask(); got < 35*time.Minute {
				t.Errorf("complete until %v after the failure, although the node is dead for 9 minutes", got)
			}
		})
	}
}

// TestWriter_GoesOnWhenTheClockIsSetBack while the database was unavailable.
func TestWriter_GoesOnWhenTheClockIsSetBack(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 50, 0, 0, time.UTC))
	n := w.start()
	n.decide("charges", 1, 0)
	w.store.Fail(rules.ErrUnavailable)
	w.run(3 * time.Minute)
	w.store.Fail(nil)
	w.add(-40 * time.Minute)
	w.run(2 * time.Minute)
	if w.store.Written() == 0 {
		t.Error("nothing was written")
	}
}

// TestWriter_WritesMuchOfAnEarlierProcessInTime, and its own minutes all the same.
func TestWriter_WritesMuchOfAnEarlierProcessInTime(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 10, 0, 0, time.UTC)
	w := newWorld(t, begin)
	file := filepath.Join(t.TempDir(), "figures.unsent")
	n := w.startAs(1, file)
	const many = 4000
	for i := range many {
		n.decide(fmt.Sprintf("rule-%04d", i), 1, 0)
	}
	w.tick(n)
	w.store.Fail(rules.ErrUnavailable)
	n.stop(t)
	w.store.Fail(nil)
	n = w.startAs(2, file)
	for range 3 * 60 {
		w.add(time.Second)
		n.decide("rule-0000", 1, 0)
		w.tick(n)
	}
	if got := w.minutesOf(w.reader, fmt.Sprintf("rule-%04d", many-1), begin, time.Minute); got[0] != 1 {
		t.Errorf("%v, want 1 of the last rule of the process before", got)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("three minutes later the file is still there: %v", err)
	}
}
