package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/history"
)

// allow lets a node allow requests of a rule, as far as they are sampled.
func (n poster) allow(rule string, times int) (sampled int) {
	for i := range times {
		if n.SampleAllowed() {
			n.KeepAllowed(history.Request{Allowed: true, Rule: rule, Key: fmt.Sprintf("user:%d", i), Mode: "enforce",
				At: newClock().t.UnixMilli()})
			sampled++
		}
	}
	return sampled
}

// requests are those that a new reader finds.
func requests(t *testing.T, b history.Board, c *clock, f history.Filter) []history.Request {
	t.Helper()
	list, err := history.NewLiveReader(b, c.now).Requests(t.Context(), f, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRequests_DenialsComeFirstAndASecondHasTwenty(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			n := newPoster("a", board, c)
			n.allow("search", 100)
			n.decide("charges", 0, 100)
			n.decide("logins", 0, 3)
			n.Post(t.Context())
			if got := len(requests(t, board, c, history.Filter{})); got != 20 {
				t.Errorf("%d samples of a second, want 20", got)
			}
			for outcome, want := range map[string]int{history.Allowed: 12, history.Denied: 8, history.WouldDeny: 0} {
				if got := len(requests(t, board, c, history.Filter{Outcome: outcome})); got != want {
					t.Errorf("%d are %s, want %d", got, outcome, want)
				}
			}
			denials, err := history.NewLiveReader(board, c.now).Denials(t.Context(), history.Filter{}, 100)
			if err != nil || len(denials) != 8 {
				t.Errorf("%d denials, %v; want 8", len(denials), err)
			}
		})
	}
}

func TestRequests_AreSpreadOverASecondLikeTheOneBefore(t *testing.T) {
	c := newClock()
	n := newPoster("a", history.NewMemory(c.now), c)
	n.allow("search", 2000)
	n.Post(t.Context())
	if first, second := n.allow("search", 1000), n.allow("search", 1000); first != 10 || second != 10 {
		t.Errorf("%d and %d samples in the halves of a second, want 10 each", first, second)
	}
	n.Post(t.Context())
	n.Post(t.Context()) // a second without requests
	if got := n.allow("search", 30); got != 20 {
		t.Errorf("%d of 30 after a quiet second, want 20", got)
	}
}

// TestRequests_OlderReleasesSeeOnlyDenials: they read and write one list, in which every line is a denial.
func TestRequests_OlderReleasesSeeOnlyDenials(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			n := newPoster("a", board, c)
			n.allow("search", 5)
			n.decide("charges", 0, 1)
			n.Post(t.Context())
			if lines, err := board.Recent(t.Context(), "recent", 0, 2000); err != nil || len(lines) != 1 {
				t.Errorf("an older release reads %q, %v; want the denial", lines, err)
			}
			old := `{"id":"o-1","at":1763726280000,"node":"o","rule":"old","key":"user:1","mode":"shadow","status":200,` +
				`"limit":5,"weight":1,"retry_after":7}`
			if err := board.Append(t.Context(), "recent", []string{old}, 2000); err != nil {
				t.Fatal(err)
			}
			got := requests(t, board, c, history.Filter{Outcome: history.WouldDeny})
			if len(got) != 1 || got[0].Rule != "old" || got[0].Allowed {
				t.Errorf("of an older release %+v, want its denial", got)
			}
		})
	}
}

// TestRequests_AreReadInPartsAndOnlyOnce: ten thousand samples are read in parts, and then only what is new.
func TestRequests_AreReadInPartsAndOnlyOnce(t *testing.T) {
	c := newClock()
	for name, shared := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			board := &asked{Board: shared}
			var lines []string
			for i := range 9000 {
				lines = append(lines, fmt.Sprintf(`{"id":"x-%d","at":%d,"allowed":true}`, i, c.now().UnixMilli()-int64(9000-i)))
			}
			for part := range slices.Chunk(lines, 500) {
				if err := board.Append(t.Context(), "allowed", part, 8000); err != nil {
					t.Fatal(err)
				}
			}
			r := history.NewLiveReader(board, c.now)
			look := func(want int, newest string, times int) {
				t.Helper()
				board.times = 0
				got, err := r.Requests(t.Context(), history.Filter{}, 20_000)
				if err != nil || len(got) != want || got[0].ID != newest {
					t.Fatalf("%d requests, %v; want %d, the first %s", len(got), err, want, newest)
				}
				if board.times != times {
					t.Errorf("asked %d times, want %d", board.times, times)
				}
			}
			look(8000, "x-8999", 17) // 16 parts, and the denials
			look(8000, "x-8999", 0)
			c.add(time.Second)
			n := newPoster("a", board, c)
			n.allow("search", 3)
			n.Post(t.Context())
			n.Post(t.Context())
			look(8000, "a-3", 2)
			again, err := board.Recent(t.Context(), "allowed", 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := board.Append(t.Context(), "allowed", again, 8000); err != nil { // as after a lost answer
				t.Fatal(err)
			}
			c.add(time.Second)
			look(8000, "a-3", 2)
		})
	}
}

func TestRequests_OfARuleHaveThoseThatItAllowedBesideAnother(t *testing.T) {
	r := history.Request{Allowed: true, Rule: "a", Also: []string{"b"}, Mode: "enforce", Degraded: "local", Node: "n"}
	denial := history.Request{Rule: "a", Also: []string{"b"}, Mode: "enforce"}
	for _, tt := range []struct {
		f               history.Filter
		allowed, denied bool
	}{
		{history.Filter{Rule: "a"}, true, true}, {history.Filter{Rule: "b"}, true, false},
		{history.Filter{Rule: "c"}, false, false},
		{history.Filter{Outcome: history.Degraded}, true, false}, {history.Filter{Outcome: history.Allowed}, true, false},
		{history.Filter{Outcome: history.Denied}, false, true}, {history.Filter{Node: "n"}, true, false},
	} {
		if got := [2]bool{tt.f.Match(&r), tt.f.Match(&denial)}; got != [2]bool{tt.allowed, tt.denied} {
			t.Errorf("%+v matches %v, want %v", tt.f, got, [2]bool{tt.allowed, tt.denied})
		}
	}
}

func TestSampling_AllocatesNothing(t *testing.T) {
	r := history.NewRecorder()
	if got := testing.AllocsPerRun(1000, func() { r.SampleAllowed() }); got != 0 {
		t.Errorf("%g allocations for a request, want none", got)
	}
}

func BenchmarkSampleAllowed(b *testing.B) {
	r := history.NewRecorder()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.SampleAllowed()
		}
	})
}
