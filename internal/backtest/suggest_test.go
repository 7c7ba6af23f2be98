package backtest

import (
	"fmt"
	"testing"
	"time"

	"sluice/limiter"
)

// The 99.9th percentile of 1,000 keys is the peak of the 999th, and 100 with a headroom of 1.1 is 110: floating point
// makes both a little more.
func TestWindow_SuggestsExactRanksAndLimits(t *testing.T) {
	w := &window{ms: 1000, keys: map[limiter.Key]*counted{}, ended: map[int64]ended{}, most: 1000}
	for i := range 1000 {
		units := int64(100)
		if i == 999 {
			units = 5000
		}
		w.add(1_000_000, limiter.Key(fmt.Sprint(i)), units, 1)
	}
	out, keys := w.suggest(1.1)
	if keys != 1000 {
		t.Fatalf("%g keys", keys)
	}
	for i, want := range []Suggestion{{Percentile: 50, Peak: 100, Limit: 110}, {Percentile: 95, Peak: 100, Limit: 110},
		{Percentile: 99, Peak: 100, Limit: 110}, {Percentile: 99.9, Peak: 100, Limit: 110},
		{Percentile: 100, Peak: 5000, Limit: 5500}} {
		got := out.Limits[i]
		got.Denied, got.DeniedKeys = 0, 0
		if got != want {
			t.Errorf("suggested %+v, want %+v", got, want)
		}
	}
	if got := withHeadroom(limiter.MaxExact, 1); got != limiter.MaxExact {
		t.Errorf("without headroom the limit is %d", got)
	}
}

// Requests of keys that are not counted are no part of the share that would have been denied.
func TestWindow_SharesAreOfTheCountedKeys(t *testing.T) {
	w := &window{ms: 1000, keys: map[limiter.Key]*counted{}, ended: map[int64]ended{}, most: 2}
	for key, units := range []int64{10, 30, 60} {
		for range units {
			w.add(1_000_000, limiter.Key(fmt.Sprint(key)), 1, 1)
		}
	}
	out, keys := w.suggest(1)
	if got := out.Limits[0]; keys != 2 || w.lost != 60 || got.Limit != 10 || got.Denied != 50 {
		t.Errorf("of %g keys and %d requests beyond, a limit of %d denies %g %%", keys, w.lost, got.Limit, got.Denied)
	}
}

// A key that is seen at several rates stands for as few keys as its highest rate says, and each request for as many as
// its own says.
func TestWindow_WeighsEachRequestByItsRate(t *testing.T) {
	w := &window{ms: 1000, keys: map[limiter.Key]*counted{}, ended: map[int64]ended{}, most: 10}
	w.add(1_000_000, "busy", 1, 100)
	w.add(1_001_000, "busy", 1, 1)
	w.add(1_001_000, "quiet", 1, 1)
	if _, keys := w.suggest(1); keys != 2 || w.requests != 102 || w.ended[1].requests != 102 {
		t.Errorf("%g keys, %g requests, %g in windows", keys, w.requests, w.ended[1].requests)
	}
}

func TestWait_IsForPeople(t *testing.T) {
	for ms, want := range map[int64]string{200: "200ms", 9572: "9.6s", 60_572: "1m1s", 3_600_000: "1h0m0s"} {
		if got := wait(ms); got != want {
			t.Errorf("%d ms are %s, want %s", ms, got, want)
		}
	}
}

// A rule that needs a fact which the log leaves out is named, as in a replay.
func TestSuggest_NamesFactsThatAreNotRecorded(t *testing.T) {
	e := check(noon, "42")
	e.Omitted = []string{"attr:tenant"}
	for rule, want := range map[string]int64{"when: 'attributes.tenant != \"acme\"'": 1, "route: /v1/x": 0} {
		set := compiled(t, "rules:\n  - {name: r, scope: user, limit: 10, window_ms: 60000, "+rule+"}\n")
		s, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: logOf(t, text(e))}, Rules: set, Rule: "r",
			Windows: []time.Duration{time.Minute}, Headroom: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for _, l := range s.Left {
			if l.Reason == partAbsent && l.Rule == "r" && l.Facts == "attributes" {
				got = l.Events
			}
		}
		if got != want {
			t.Errorf("%s: %d events without the fact, want %d: %+v", rule, got, want, s.Left)
		}
	}
}
