package history_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/history"
)

// TestStats_ABegunTableIsThatOfAFirstRead: a reader that has asked before says what one says that has not, whatever was
// written and posted since, and whether or not the rule database answers.
func TestStats_ABegunTableIsThatOfAFirstRead(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 9, 55, 3, 0, time.UTC))
	random := rand.New(rand.NewPCG(3, 4))
	nodes := []*node{w.start(), w.start()}
	names := []string{"charges", "search", "login"}
	compared, reads := 0, 0
	w.store.reads = func(kind history.Kind) {
		if kind == history.KindMinutes {
			reads++
		}
	}
	for step := range 1500 {
		w.add(3 * time.Second)
		for _, n := range nodes {
			n.decide(names[random.IntN(3)], random.IntN(4), random.IntN(2))
			if random.IntN(40) > 0 { // else it posts late
				n.Post(t.Context())
			}
		}
		if step%20 == 0 {
			nodes[step/20%2].writer.Round(t.Context())
		}
		q := history.Query{By: []string{history.ByRule, history.ByNode}[step%2], From: w.now().Add(-time.Hour), To: w.now(),
			Step: time.Minute}
		before := reads
		got := w.ask(q)
		again := reads - before
		fresh, err := history.NewReader(history.ReaderOptions{Recent: fleet.NewReader(w.board, w.now), Store: w.store,
			Now: w.now, Keep: 90 * history.Day, Exists: func(string) bool { return true }}).Stats(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if again >= reads-before-again {
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
