package history_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/history"
	"sluice/rules"
)

// see lets a limit on trial decide requests of a key, of which the rule would have decided was.
func (n *node) see(t history.Trial, times int, key string, was, allowed bool) {
	for range times {
		n.Trial(t, history.Tried{Allowed: allowed, Was: was, Compared: true}, func() string { return key })
	}
}

// TestTrial_CountsByVersionOnAllNodes: what a trial counted before an edit stays with the version of before, and
// nothing
// is counted twice: while it is in memory, in the rows of processes, and when it was added up.
func TestTrial_CountsByVersionOnAllNodes(t *testing.T) {
	w := newWorld(t, hourBegun)
	a, b := w.start(), w.start()
	four, five := history.Trial{Rule: 17, Version: 4}, history.Trial{Rule: 17, Version: 5}
	first := w.now().Truncate(time.Second)
	a.see(four, 7, "user:1", true, true)
	a.see(four, 3, "user:1", true, false)
	w.tick(a)
	w.add(15 * time.Second) // another hour
	a.see(four, 5, "user:1", true, true)
	b.see(four, 7, "user:1", true, false)
	b.see(five, 1, "user:1", true, false)
	b.see(five, 1, "user:1", true, true)
	w.tick(a, b)
	if got, err := a.reader.Trial(t.Context(), 17, []int64{4}); err != nil || got.Seen < 15 || got.Denied < 3 {
		t.Errorf("on its own node at once: %+v, %v; want its 15", got, err)
	}
	for _, later := range []time.Duration{2 * time.Minute, 5 * time.Hour, 40 * history.Day} {
		w.run(min(later, 20*time.Minute))
		w.add(later - min(later, 20*time.Minute))
		w.run(20 * time.Minute)
		for _, r := range []*history.Reader{w.reader, a.reader, b.reader} {
			for _, tc := range []struct {
				versions     []int64
				seen, denied int64
			}{{[]int64{4}, 22, 10}, {[]int64{5}, 2, 1}, {[]int64{5, 4}, 24, 11}, {[]int64{6}, 0, 0}} {
				got, err := r.Trial(t.Context(), 17, tc.versions)
				if err != nil || got.Seen != tc.seen || got.Denied != tc.denied {
					t.Errorf("%v later, versions %v: %+v (%v), want %d seen, %d denied", later, tc.versions, got, err, tc.seen,
						tc.denied)
				}
				if tc.versions[0] == 4 && !got.First.Equal(first) {
					t.Errorf("first request at %s, want %s", got.First, first)
				}
			}
		}
	}
	rows := w.ask(history.Query{By: history.ByRule, From: w.now().Add(-60 * history.Day), To: w.now(), Step: history.Day})
	if len(rows.Top) != 0 {
		t.Errorf("trials appear as rules: %+v", rows.Top)
	}
	w.store.Fail(rules.ErrUnavailable)
	if _, err := w.reader.Trial(t.Context(), 17, []int64{4}); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("while the store is away: %v, want an error: one node is no measure of a trial", err)
	}
}

// TestTrial_IsOfTheInstantOfTheFigures: the evidence of another node is there with its figures, before any is written,
// and is not counted again once it is.
func TestTrial_IsOfTheInstantOfTheFigures(t *testing.T) {
	w := newWorld(t, hourBegun)
	a, b := w.start(), w.start()
	a.Post(t.Context())
	trial := history.Trial{Rule: 17, Version: 4}
	for range 7 {
		b.Limit("quiet", &history.Decided{Allowed: true, WouldDeny: true})
	}
	b.see(trial, 7, "user:1", true, false)
	b.Post(t.Context())
	for _, later := range []time.Duration{2 * time.Second, 5 * time.Minute} {
		w.add(later)
		figures, err := a.reader.Stats(t.Context(), history.Query{Rule: "quiet", From: w.now().Add(-10 * time.Minute),
			To: w.now(), Step: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.reader.Trial(t.Context(), 17, []int64{4})
		if f := sumOf(figures); err != nil || f.WouldDeny != 7 || got.Seen != 7 || got.Denied != 7 ||
			len(got.Keys.Entries) != 1 || got.Keys.Entries[0].Denied != 7 {
			t.Errorf("%v later the chart has %+v and the evidence %+v (%v), want 7 each", later, f, got, err)
		}
		w.run(2 * time.Minute) // it is written
	}
}

// TestTrial_AreBounded: a flood of versions does not grow, and an hour later others have room.
func TestTrial_AreBounded(t *testing.T) {
	w := newWorld(t, hourBegun)
	n := w.start()
	for v := range int64(5000) {
		n.Trial(history.Trial{Rule: 1, Version: v}, history.Tried{Allowed: true}, nil)
	}
	w.run(time.Minute)
	n.Trial(history.Trial{Rule: 1, Version: 7000}, history.Tried{}, nil)
	w.run(time.Minute)
	if got, err := n.reader.Trial(t.Context(), 1, []int64{7000}); err != nil || got.Denied != 1 {
		t.Errorf("a new trial after many: %+v (%v), want it counted", got, err)
	}
	var seen int64
	for v := range int64(5000) {
		got, err := n.reader.Trial(t.Context(), 1, []int64{v})
		if err != nil {
			t.Fatal(err)
		}
		seen += got.Seen
	}
	if seen != 1000 {
		t.Errorf("%d trials counted, want the bound of 1000", seen)
	}
}

// TestTrial_SaysWhatWouldChangeAndByWhichKeys: of a candidate, the requests that it decides otherwise than its rule are
// counted both ways, on all nodes.
func TestTrial_SaysWhatWouldChangeAndByWhichKeys(t *testing.T) {
	w := newWorld(t, hourBegun)
	a, b := w.start(), w.start()
	trial := history.Trial{Rule: 3, Version: 2}
	a.see(trial, 100, "user:a b", true, true)
	a.see(trial, 30, "user:a b", true, false)
	a.see(trial, 5, "user:2", false, false)
	w.tick(a)
	w.add(time.Second)
	a.see(trial, 3, "user:2", false, true)
	b.see(trial, 8, "user:2", true, false)
	a.Trial(trial, history.Tried{}, nil) // its rule was left to a fail mode
	w.run(3 * time.Minute)
	got, err := w.reader.Trial(t.Context(), 3, []int64{2})
	if err != nil {
		t.Fatal(err)
	}
	got.First, got.Keys.Denied = time.Time{}, nil
	want := history.TrialCounts{Seen: 147, Denied: 44, Compared: 146, NewlyDenied: 38, NewlyAllowed: 3,
		Keys: history.Top{Entries: []history.TopEntry{{Key: "user:a b", Denied: 30}, {Key: "user:2", Denied: 8, Allowed: 3}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if got.Changes() != 41 {
		t.Errorf("%d would change, want 41", got.Changes())
	}
}

// TestTrial_KeysAreBounded: however many keys would change, a few of them are kept, and a frequent one is among them.
func TestTrial_KeysAreBounded(t *testing.T) {
	w := newWorld(t, hourBegun)
	n := w.start()
	for second := range 20 {
		for i := range 300 {
			key := fmt.Sprintf("user:%d-%d", second, i)
			if i%3 == 0 {
				key = "user:often"
			}
			n.see(history.Trial{Rule: 3, Version: 2}, 1, key, true, false)
		}
		w.run(5 * time.Second)
	}
	got, err := n.reader.Trial(t.Context(), 3, []int64{2})
	if err != nil || len(got.Keys.Entries) > 20 || got.NewlyDenied != 6000 {
		t.Fatalf("%d keys of %d requests, %v; want 20 of 6000", len(got.Keys.Entries), got.NewlyDenied, err)
	}
	if first := got.Keys.Entries[0]; first.Key != "user:often" || first.Denied > 2000 ||
		first.Denied+first.Error() < 2000 {
		t.Errorf("the first key is %+v, want user:often with 2000 in its range", first)
	}
}

// What cannot be read counts as nothing.
func TestTrial_SkipsWhatItCannotRead(t *testing.T) {
	w := newWorld(t, hourBegun)
	for i, data := range []string{"", "\x09\x01\x01", "\x04\x0a\x03"} {
		w.store.Put([]history.LiveRow{{Writer: int64(100 + i), Rule: "%17:4", Hour: hourBegun.Unix() / 3600,
			Data: []byte(data)}})
	}
	n := w.start()
	n.see(history.Trial{Rule: 17, Version: 4}, 1, "user:42", true, false)
	w.run(3 * time.Minute)
	got, err := w.reader.Trial(t.Context(), 17, []int64{4})
	if err != nil || got.Seen != 1 || got.Denied != 1 || got.Compared != 1 || got.NewlyDenied != 1 ||
		len(got.Keys.Entries) != 1 {
		t.Errorf("got %+v (%v), want one that is compared", got, err)
	}
}
