package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/history"
)

// TestTrend_HasNoMoreThanIsKnown: keys are counted by hour, so their trend has hours. A part is unknown if nobody ran
// then, or if the key may have had requests among those that were not counted by key.
func TestTrend_HasNoMoreThanIsKnown(t *testing.T) {
	const unknown = history.LineUnknown
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 30, 0, time.UTC))
	w.start()
	n := w.nodes[0]
	hour := func(each func()) {
		each()
		w.tick(n)
		w.run(time.Hour)
	}
	few := func(times int) func() {
		return func() {
			for range times {
				n.decide("charges", 1, 0)
				n.Top("charges", history.ByKey, "user:1", true, 1)
			}
		}
	}
	hour(few(70))
	hour(func() {}) // known, without a request
	hour(func() {
		for i := range 200 { // user:1 is not among them
			n.decide("charges", 1, 0)
			n.Top("charges", history.ByKey, fmt.Sprintf("user:%d", 2+i%10), true, 3)
		}
		for i := range 100 {
			n.Top("charges", history.ByKey, fmt.Sprintf("rare:%d", i), true, 1)
		}
	})
	few(50)()
	w.run(2 * time.Minute) // it is written
	got := w.ask(history.Query{Rule: "charges", By: history.ByKey, From: w.now().Add(-4 * time.Hour),
		To: w.now(), Step: time.Minute})
	i := slices.IndexFunc(got.Top, func(r history.Row) bool { return r.Key == "user:1" })
	if want := []int64{unknown, 70, 0, unknown, 50}; i < 0 || !slices.Equal(got.Top[i].Line, want) ||
		got.LineStep != time.Hour || !got.TopFrom.Equal(w.now().Truncate(time.Hour).Add(-4*time.Hour)) {
		t.Errorf("%+v from %s by %s, want %v", got.Top, got.TopFrom, got.LineStep, want)
	}
	got = w.ask(history.Query{By: history.ByRule, From: w.now().Add(-7 * time.Hour), To: w.now(), Step: time.Minute})
	if want := []int64{unknown, unknown, unknown, unknown, 70, 0, 200, 50}; !slices.Equal(got.Top[0].Line, want) ||
		got.LineStep != time.Hour {
		t.Errorf("the rule has %v by %s, want %v", got.Top[0].Line, got.LineStep, want)
	}
}

// TestTop_ARowThatMayNotBeIsLeftOut: many keys that are equally rare have no order that is known.
func TestTop_ARowThatMayNotBeIsLeftOut(t *testing.T) {
	w := newWorld(t, time.Date(2026, 11, 20, 10, 0, 30, 0, time.UTC))
	w.start()
	n := w.nodes[0]
	for i := range 5000 {
		n.decide("charges", 1, 0)
		key := fmt.Sprintf("rare:%d", i)
		if i%10 == 0 {
			key = "user:1"
		}
		n.Top("charges", history.ByKey, key, true, 1)
	}
	w.run(2 * time.Minute) // it is written
	got := w.ask(history.Query{Rule: "charges", By: history.ByKey, From: w.now().Add(-time.Hour), To: w.now(),
		Step: time.Minute})
	if len(got.Top) != 1 || got.Top[0].Key != "user:1" || got.Top[0].Error > got.Top[0].Allowed || got.TopRest == 0 {
		t.Errorf("%+v, any other at most %d; want user:1 alone", got.Top, got.TopRest)
	}
}
