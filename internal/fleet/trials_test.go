package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/fleet"
	"sluice/internal/history"
)

// try lets a shadow rule of id 17 decide.
func try(n node, version int64, allowed bool) {
	n.Trial(fleet.Trial{Rule: 17, Version: version}, fleet.Tried{Allowed: allowed, Was: true, Compared: true},
		func() string { return "user:42" })
}

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
					try(n, version, i >= denied)
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
		n.Trial(fleet.Trial{Rule: 1, Version: v}, fleet.Tried{Allowed: true}, nil)
	}
	for range 10 {
		n.Post(t.Context())
		c.add(10 * time.Second)
	}
	n.Trial(fleet.Trial{Rule: 1, Version: 7000}, fleet.Tried{}, nil)
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

// TestTrial_SaysWhatWouldChangeAndByWhichKeys: of a candidate, the requests that it decides otherwise than its rule are
// counted both ways, on all nodes.
func TestTrial_SaysWhatWouldChangeAndByWhichKeys(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			ctx, r := t.Context(), fleet.NewReader(board, c.now)
			a, b := newNode("a", board, c), newNode("b", board, c)
			see := func(n node, times int, key string, was, allowed bool) {
				for range times {
					n.Trial(fleet.Trial{Rule: 3, Version: 2}, fleet.Tried{Allowed: allowed, Was: was, Compared: true},
						func() string { return key })
				}
			}
			see(a, 100, "user:a b", true, true)
			see(a, 30, "user:a b", true, false)
			see(a, 5, "user:2", false, false)
			a.Post(ctx)
			c.add(10 * time.Second)
			see(a, 3, "user:2", false, true)
			see(b, 8, "user:2", true, false)
			a.Trial(fleet.Trial{Rule: 3, Version: 2}, fleet.Tried{}, nil) // its rule was left to a fail mode
			a.Post(ctx)
			b.Post(ctx)
			got, err := r.Trial(ctx, 3, []int64{2})
			if err != nil {
				t.Fatal(err)
			}
			got.First = time.Time{}
			want := fleet.TrialCounts{Seen: 147, Denied: 44, Compared: 146, NewlyDenied: 38, NewlyAllowed: 3,
				Keys: history.Top{Entries: []history.TopEntry{{Key: "user:a b", Denied: 30}, {Key: "user:2", Denied: 8, Allowed: 3}}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
			if got.Changes() != 41 {
				t.Errorf("%d would change, want 41", got.Changes())
			}
		})
	}
}

// TestTrial_KeysAreBounded: however many keys would change, a few of them are posted, and a frequent one is among them.
func TestTrial_KeysAreBounded(t *testing.T) {
	c := newClock()
	board := fleet.NewMemory(c.now)
	n, r := newNode("a", board, c), fleet.NewReader(board, c.now)
	for second := range 20 {
		for i := range 300 {
			key := fmt.Sprintf("user:%d-%d", second, i)
			if i%3 == 0 {
				key = "user:often"
			}
			n.Trial(fleet.Trial{Rule: 3, Version: 2}, fleet.Tried{Was: true, Compared: true}, func() string { return key })
		}
		n.Post(t.Context())
		c.add(5 * time.Second)
	}
	got, err := r.Trial(t.Context(), 3, []int64{2})
	if err != nil || len(got.Keys.Entries) > 20 || got.NewlyDenied != 6000 {
		t.Fatalf("%d keys of %d requests, %v; want 20 of 6000", len(got.Keys.Entries), got.NewlyDenied, err)
	}
	if first := got.Keys.Entries[0]; first.Key != "user:often" || first.Denied > 2000 ||
		first.Denied+first.Error() < 2000 {
		t.Errorf("the first key is %+v, want user:often with 2000 in its range", first)
	}
}

// What no node posts counts as nothing.
func TestTrial_SkipsWhatItCannotRead(t *testing.T) {
	c := newClock()
	board := fleet.NewMemory(c.now)
	ctx, r := t.Context(), fleet.NewReader(board, c.now)
	for field, value := range map[string]string{"short:1": "10 3 1764000000000", "bad:1": "10 3 1764000000000 7 x 1 {}",
		"bad:2": "-1 3 1764000000000 0 0 0 {}"} {
		if err := board.Post(ctx, []fleet.Entry{{Table: "x:17:4", Field: field, Value: value, TTL: time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	n := newNode("new", board, c)
	try(n, 4, false)
	n.Post(ctx)
	got, err := r.Trial(ctx, 17, []int64{4})
	if err != nil || got.Seen != 1 || got.Denied != 1 || got.Compared != 1 || got.NewlyDenied != 1 ||
		len(got.Keys.Entries) != 1 {
		t.Errorf("got %+v (%v), want one that is compared", got, err)
	}
}
