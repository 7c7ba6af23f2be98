package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/historytest"
)

// TestStats_AClockAheadOfTheDatabaseLosesNothing of the first minutes of an hour.
func TestStats_AClockAheadOfTheDatabaseLosesNothing(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 58, 0, 0, time.UTC)
	w := newWorld(t, begin)
	w.store = historytest.NewStore(func() time.Time { return w.now().Add(-3 * time.Minute) })
	w.reader = w.readerOf(history.NewOwn(1000, history.NewRecorder()))
	n := w.start()
	for step := range 20 * 12 {
		if step == 25 { // 11:00
			n.decide("charges", 5, 0)
		}
		w.tick(n)
		w.add(5 * time.Second)
	}
	if got := w.minutesOf(w.reader, "charges", begin, 10*time.Minute); got[2] != 5 {
		t.Errorf("%v, want 5 in the first minute of the hour", got)
	}
}

// TestStats_ANodeThatStoppedKeepsItsRowOfNodes, although a reader has cached what the board had.
func TestStats_ANodeThatStoppedKeepsItsRowOfNodes(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t, begin)
	a, b := w.start(), w.start()
	for range 40 {
		w.add(5 * time.Second)
		a.decide("charges", 1, 0)
		b.decide("charges", 1, 0)
		w.tick(a, b)
	}
	ask := func() map[string]int64 {
		t.Helper()
		out := map[string]int64{}
		for _, r := range w.ask(history.Query{By: history.ByNode, From: begin, To: begin.Add(10 * time.Minute),
			Step: time.Minute}).Top {
			out[r.Key] = r.Allowed
		}
		return out
	}
	w.add(3 * time.Second)
	if got := ask(); got["node-1:80"] != 40 || got["node-2:80"] != 40 {
		t.Fatalf("%v, want 40 each", got)
	}
	a.decide("charges", 2, 0)
	a.stop(t)
	w.add(4 * time.Second)
	w.tick(b)
	if got := ask(); got["node-1:80"] != 42 || got["node-2:80"] != 40 {
		t.Errorf("%v, want 42 of the node that stopped and 40", got)
	}
}

// blocked is a board whose reads wait.
type blocked struct {
	history.Board
	entered, release chan struct{}
}

func (b *blocked) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	if b.release != nil {
		b.entered <- struct{}{}
		<-b.release
	}
	return b.Board.Read(ctx, tables)
}

// TestReader_HoldsUpNoPost while the board hangs.
func TestReader_HoldsUpNoPost(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	b := &blocked{Board: w.board}
	n := w.start()
	for range 90 {
		w.add(time.Second)
		n.decide("charges", 1, 0)
		w.tick(n)
	}
	r := history.NewReader(history.ReaderOptions{Live: history.NewLiveReader(b, w.now), Store: w.store, Own: n.own,
		Now: w.now, Exists: func(string) bool { return true }})
	b.entered, b.release = make(chan struct{}, 9), make(chan struct{})
	asked, posted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = r.Stats(t.Context(), history.Query{From: w.now().Add(-time.Hour), To: w.now(), Step: time.Minute})
	}()
	<-b.entered
	go func() {
		defer close(posted)
		n.Post(t.Context())
	}()
	select {
	case <-posted:
	case <-time.After(20 * time.Second): // it never comes
		t.Error("a post waits for a read of the board")
	}
	close(b.release)
	<-asked
	<-posted
}

// TestStats_AClockThatJumpsAndReturnsLosesNothing of the hour in which it did.
func TestStats_AClockThatJumpsAndReturnsLosesNothing(t *testing.T) {
	for _, jump := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		begin := time.Date(2026, 11, 20, 10, 20, 0, 0, time.UTC)
		w := newWorld(t, begin)
		shift := time.Duration(0)
		w.store = historytest.NewStore(func() time.Time { return w.now().Add(-shift) })
		w.reader = w.readerOf(history.NewOwn(1000, history.NewRecorder()))
		n := w.start()
		run := func() {
			for range 36 {
				n.decide("charges", 1, 0)
				w.tick(n)
				w.add(5 * time.Second)
			}
		}
		run()
		shift = jump
		w.add(jump)
		run()
		shift = 0
		w.add(-jump)
		run()
		w.run(5 * time.Minute)
		for _, r := range []*history.Reader{w.reader, n.reader} {
			var sum int64
			for _, one := range w.minutesOf(r, "charges", begin, time.Hour) {
				sum += one
			}
			if sum < 72 || sum > 108 {
				t.Errorf("%v: %d in the hour, want the 72 before and after it, and at most 108", jump, sum)
			}
		}
	}
}

// TestStats_ASuspendedNodeCountsNothingTwice when it is asked before it has posted again: others have added up its
// rows.
func TestStats_ASuspendedNodeCountsNothingTwice(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 20, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	n.decide("charges", 5, 0)
	w.run(3 * time.Minute)
	w.add(6 * time.Hour)
	if n, err := w.store.FoldStats(t.Context(), 1000); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	if got := w.minutesOf(n.reader, "charges", begin, time.Hour); got[0] != 5 {
		t.Errorf("%v, want 5 in the first minute", got)
	}
}

// lateStore calls meanwhile during a read.
type lateStore struct {
	history.Store
	meanwhile func()
}

func (s *lateStore) ReadStats(ctx context.Context, names []string, parts []history.Part, columns history.Columns,
	see func(*history.StoredRow)) error {
	if len(parts) > 1 { // it is not asked until when the figures are complete
		s.meanwhile()
	}
	return s.Store.ReadStats(ctx, names, parts, columns, see)
}

// TestStats_AnHourThatEndsDuringAReadIsThere: the node then forgets the hour before it.
func TestStats_AnHourThatEndsDuringAReadIsThere(t *testing.T) {
	begin := time.Date(2026, 11, 20, 10, 50, 0, 0, time.UTC)
	w := newWorld(t, begin)
	n := w.start()
	for range 69 {
		n.decide("charges", 1, 0)
		w.run(time.Minute)
	}
	w.add(59 * time.Second)
	late := &lateStore{Store: w.store, meanwhile: func() {
		w.add(time.Second)
		n.Post(t.Context()) // 12:00
	}}
	r := history.NewReader(history.ReaderOptions{Live: history.NewLiveReader(w.board, w.now), Store: late, Own: n.own,
		Now: w.now, Exists: func(string) bool { return true }})
	if got := w.minutesOf(r, "charges", begin, 10*time.Minute); len(got) != 10 {
		t.Errorf("%v, want one in each of the ten minutes before 11:00", got)
	}
}

// TestOwn_IsBounded although the names of rules change all the time.
func TestOwn_IsBounded(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	n := w.start()
	const many = 50_000
	for i := range many {
		if i%10_000 == 0 {
			w.add(20 * time.Second)
			w.tick(n)
		}
		n.decide(fmt.Sprintf("rule-%d", i), 1, 0)
	}
	w.add(20 * time.Second)
	w.tick(n)
	n.stop(t)
	if rows := w.store.Live(); rows > 20_010 {
		t.Errorf("%d rows of one node and hour", rows)
	}
	w.add(3 * time.Minute)
	got := w.ask(history.Query{By: history.ByRule, From: w.now().Add(-time.Hour), To: w.now(), Step: time.Minute})
	if len(got.Top) == 0 || got.Top[0].Key != history.Other || got.Top[0].Allowed-(many-20_000) > 9 {
		t.Errorf("%d rows, the first %+v; want one with the other %d", len(got.Top), got.Top[0], many-20_000)
	}
}
