package history_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/history"
)

// TestStats_TablesOfAllRulesAreKeptForAMoment: many pages ask for the same table, which takes long with many rules.
func TestStats_TablesOfAllRulesAreKeptForAMoment(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 30, 30, 0, time.UTC))
	n := w.start()
	denied := func() int64 {
		got, err := w.reader.Stats(t.Context(), history.Query{By: history.ByRule, From: w.now().Add(-5 * time.Minute),
			To: w.now(), Step: time.Minute})
		if err != nil || len(got.Top) != 1 {
			t.Errorf("rows %+v (%v)", got.Top, err)
			return 0
		}
		sum := got.Top[0].Denied
		got.Top[0].Denied = -1 // what a caller does to it stays with the caller
		return sum
	}
	n.decide("charges", 0, 3)
	w.tick(n)
	w.add(2 * time.Second)
	if got := denied(); got != 3 {
		t.Fatalf("%d denied, want 3", got)
	}
	n.decide("charges", 0, 4)
	w.tick(n)
	w.add(time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := denied(); got != 3 {
				t.Errorf("%d denied a second later, want the 3 that are kept", got)
			}
		})
	}
	all.Wait()
	w.add(time.Second)
	if got := denied(); got != 7 {
		t.Errorf("%d denied after a moment, want 7", got)
	}
	n.decide("charges", 0, 1)
	w.tick(n)
	w.add(2 * time.Second)
	w.store.Fail(errors.New("gone"))
	first := denied()
	w.store.Fail(nil)
	if got := denied(); got != 8 {
		t.Errorf("%d denied, then %d: what is not whole was kept", first, got)
	}
}

// TestStats_AStoreThatFailsIsLeftAloneForASecond: the page of a key asks for the figures of twenty rules, and each read
// of a database that hangs takes until its timeout.
func TestStats_AStoreThatFailsIsLeftAloneForASecond(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 30, 30, 0, time.UTC))
	ask := func() error {
		t.Helper()
		got, err := w.reader.Stats(t.Context(), history.Query{From: w.now().Add(-time.Hour), To: w.now(), Step: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return got.Partial
	}
	w.store.Fail(errors.New("dial tcp 10.0.0.7:5432: i/o timeout"))
	for range 3 {
		if err := ask(); err == nil || strings.Contains(err.Error(), "10.0.0.7") {
			t.Errorf("what is missing: %v, want words without the address", err)
		}
	}
	if w.store.Reads() != 1 {
		t.Errorf("the store was asked %d times within a second", w.store.Reads())
	}
	w.store.Fail(nil)
	w.add(time.Second)
	if err := ask(); err != nil {
		t.Errorf("a second after the store is back: %v", err)
	}
}

// TestStats_ABegunTableIsThatOfAFirstRead: a reader that has asked before says what one says that has not, whatever was
// written and posted since.
func TestStats_ABegunTableIsThatOfAFirstRead(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 9, 55, 3, 0, time.UTC))
	random := rand.New(rand.NewPCG(3, 4))
	nodes := []*node{w.start(), w.start()}
	names := []string{"charges", "search", "login"}
	compared := 0
	for step := range 1500 {
		w.add(3 * time.Second)
		for _, n := range nodes {
			n.decide(names[random.IntN(3)], random.IntN(4), random.IntN(2))
			if random.IntN(40) > 0 { // else it posts late
				w.tick(n)
			}
		}
		if step == 700 {
			w.board.Board = history.NewMemory(w.now) // the board was emptied
		}
		q := history.Query{By: []string{history.ByRule, history.ByNode}[step%2], From: w.now().Add(-time.Hour), To: w.now(),
			Step: []time.Duration{time.Minute, time.Hour}[step%3/2]}
		before := w.store.Reads()
		got := w.ask(q)
		again := w.store.Reads() - before
		fresh, err := w.readerOf(history.NewOwn(1000, history.NewRecorder())).Stats(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if again >= w.store.Reads()-before-again {
			continue // it had to read the table itself
		}
		compared++
		if !reflect.DeepEqual(got.Top, fresh.Top) {
			t.Fatalf("step %d, by %s: %+v, want %+v", step, q.By, got.Top, fresh.Top)
		}
	}
	if compared < 1000 {
		t.Errorf("a begun table was used %d times of 1500", compared)
	}
}
