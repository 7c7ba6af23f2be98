package fleet_test

import (
	"testing"
	"time"

	"sluice/internal/fleet"
)

// TestTrial_CountsByVersionOnAllNodes: what a trial counted before an edit stays
// with the version of before, and nothing is counted twice.
func TestTrial_CountsByVersionOnAllNodes(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			ctx, r := t.Context(), fleet.NewReader(board, c.now)
			a, b := newNode("a", board, c), newNode("b", board, c)
			see := func(n node, version int64, seen, denied int) {
				for i := range seen {
					n.Trial(fleet.Trial{Rule: 17, Version: version}, i >= denied)
				}
			}
			first := c.now()
			see(a, 4, 10, 3)
			a.Post(ctx)
			c.add(10 * time.Second)
			see(a, 4, 5, 0)
			see(b, 4, 7, 7)
			see(b, 5, 2, 1)
			a.Post(ctx)
			b.Post(ctx)
			c.add(10 * time.Second)
			b.Post(ctx) // again, with nothing new
			again := newNode("a2", board, c)
			see(again, 4, 1, 1)
			again.Post(ctx)

			for _, tc := range []struct {
				versions     []int64
				seen, denied int64
			}{{[]int64{4}, 23, 11}, {[]int64{5}, 2, 1}, {[]int64{5, 4}, 25, 12}, {[]int64{6}, 0, 0}} {
				got, err := r.Trial(ctx, 17, tc.versions)
				if err != nil || got.Seen != tc.seen || got.Denied != tc.denied {
					t.Errorf("versions %v: %+v (%v), want %d seen, %d denied", tc.versions, got, err, tc.seen, tc.denied)
				}
				if tc.versions[0] == 4 && got.First.UnixMilli() != first.UnixMilli() {
					t.Errorf("first request at %s, want %s", got.First, first)
				}
			}
			if live := r.Live(ctx); len(live.Rules) != 0 {
				t.Errorf("trials appear as rules: %+v", live.Rules)
			}
		})
	}
}

// TestTrial_AreBounded: what nobody posts any more makes room, and a board that
// is away does not let trials pile up.
func TestTrial_AreBounded(t *testing.T) {
	c := newClock()
	board := &flaky{Board: fleet.NewMemory(c.now)}
	n, r := newNode("a", board, c), fleet.NewReader(board, c.now)
	for v := range int64(5000) {
		n.Trial(fleet.Trial{Rule: 1, Version: v}, true)
	}
	for range 10 {
		n.Post(t.Context())
		c.add(10 * time.Second)
	}
	n.Trial(fleet.Trial{Rule: 1, Version: 7000}, false)
	n.Post(t.Context())
	if got, err := r.Trial(t.Context(), 1, []int64{7000}); err != nil || got.Denied != 1 {
		t.Errorf("a new trial after many: %+v (%v), want it counted", got, err)
	}
	var seen int64
	for v := range int64(5000) {
		got, err := r.Trial(t.Context(), 1, []int64{v})
		if err != nil {
			t.Fatal(err)
		}
		seen += got.Seen
	}
	if seen != 1000 {
		t.Errorf("%d trials counted, want the bound of 1000", seen)
	}
}
