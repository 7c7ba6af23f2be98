package limiter

import (
	"testing"

	"pgregory.net/rapid"
)

// one runs a single-limit request and returns its decision.
func one(t *testing.T, op Op, l Limit, s *State, now, w int64, id string) Decision {
	t.Helper()
	out := make([]Decision, 1)
	Decide(op, []Ask{{Limit: l, Weight: w}}, id, []*State{s}, now, make([]bool, 1), out, make([]Charged, 1))
	return out[0]
}

func TestDecide_ChargesKeepALogBounded(t *testing.T) {
	asks := []Ask{{Key: "k", Limit: Limit{Algorithm: SlidingWindowLog, Count: 3, Window: 1000}, Weight: 1}}
	var (
		s       State
		changed [1]bool
		out     [1]Decision
		charged [1]Charged
	)
	for now := range int64(50) {
		Decide(OpCharge, asks, "", []*State{&s}, now, changed[:], out[:], charged[:])
	}
	if len(s.Entries) > 4 || sum(s.Entries) != 50 {
		t.Errorf("got %d entries of %d units, want at most 4 of 50", len(s.Entries), sum(s.Entries))
	}
}

func TestDecide_DeniedTakeChangesNoBucket(t *testing.T) {
	asks := []Ask{
		{Key: "wide", Limit: Limit{Algorithm: FixedWindow, Count: 100, Window: 60_000}, Weight: 1},
		{Key: "narrow", Limit: Limit{Algorithm: TokenBucket, Count: 1, Window: 1000, Burst: 1}, Weight: 1},
	}
	states := []*State{{}, {}}
	changed, out, charged := make([]bool, 2), make([]Decision, 2), make([]Charged, 2)
	if !Decide(OpTake, asks, "", states, 0, changed, out, charged) {
		t.Fatal("the first request was denied")
	}
	for now := int64(1); now < 50; now++ {
		if Decide(OpTake, asks, "", states, now, changed, out, charged) {
			t.Fatalf("allowed at %d ms, before the narrow limit refills", now)
		}
		if changed[0] || changed[1] || charged[0].Weight != 0 {
			t.Fatalf("a denied take changed a bucket at %d ms", now)
		}
	}
	if out[0].Remaining != 99 {
		t.Errorf("wide limit has %d remaining, want 99: one request passed", out[0].Remaining)
	}
}

func TestRescale_NeverForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(1, MaxWindow).Draw(t, "from")
		to := rapid.Int64Range(1, MaxWindow).Draw(t, "to")
		units := rapid.Int64Range(0, MaxExact/max(from, to)).Draw(t, "units")
		if got := rescale(units*from, from, to); got != units*to {
			t.Fatalf("%d whole units rescaled from 1/%d to 1/%d are %d, want %d", units, from, to, got, units*to)
		}
		v := units*from + rapid.Int64Range(0, from-1).Draw(t, "rest")
		got := rescale(v, from, to)
		if got < units*to || got > (units+1)*to {
			t.Fatalf("%d/%d became %d/%d, outside [%d, %d] units", v, from, got, to, units, units+1)
		}
	})
}

func TestBuckets_ReshapedWindowForgetsNothingEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := func(name string) Limit {
			w := rapid.Int64Range(10, 5000).Draw(t, name+"Window")
			return Limit{Algorithm: SlidingWindowBuckets, Count: 1000, Window: w,
				Buckets: rapid.Int64Range(1, min(w, 60)).Draw(t, name+"Buckets")}
		}
		before, after := shape("before"), shape("after")
		s := &State{}
		out := make([]Decision, 1)
		take := func(l Limit, now, w int64) {
			Decide(OpTake, []Ask{{Limit: l, Weight: w}}, "", []*State{s}, now, make([]bool, 1), out, make([]Charged, 1))
		}
		now := int64(100_000)
		type hit struct{ at, w int64 }
		var hits []hit
		for range rapid.IntRange(1, 20).Draw(t, "hits") {
			now += rapid.Int64Range(0, 200).Draw(t, "gap")
			w := rapid.Int64Range(1, 9).Draw(t, "weight")
			take(before, now, w)
			if out[0].Allowed {
				hits = append(hits, hit{now, w})
			}
		}
		take(after, now, 0)
		// What is younger than the window less one sub-window does not even fade.
		span := min(whole(before), whole(after))
		var floor int64
		for _, h := range hits {
			if h.at > now-span {
				floor += h.w
			}
		}
		if used := after.Count - out[0].Remaining; used < floor {
			t.Fatalf("after the edit %d units count, want at least the %d of the last %d ms", used, floor, span)
		}
	})
}

// whole is how long a hit surely counts in full under l, in ms.
func whole(l Limit) int64 { return l.Window - ceilDiv(l.Window, l.Buckets) }

func TestGCRA_EditToAHugeRateDrainsBeforeItCuts(t *testing.T) {
	slow := Limit{Algorithm: GCRA, Count: 10, Window: 60_000, Burst: 10}
	fast := Limit{Algorithm: GCRA, Count: 2_000_000_000_000, Window: 4000, Burst: 2_000_000_000_000}
	s := &State{}
	one(t, OpTake, slow, s, 0, 10, "")
	// The bucket is empty at 60 s, whatever the rate: 1 s before, 1 s is left.
	if d := one(t, OpPeek, fast, s, 59_000, 0, ""); d.Reset != 1000 {
		t.Errorf("1 s before it is empty reset is %d ms, want 1000", d.Reset)
	}
}

func TestGCRA_ChargeNeverOutlivesAFullBurst(t *testing.T) {
	l := Limit{Algorithm: GCRA, Count: 10, Window: 1000, Burst: 10}
	s := &State{}
	if d := one(t, OpCharge, l, s, 0, 500, ""); d.Reset != 1000 || d.Remaining != 0 || d.Allowed {
		t.Errorf("charge of 500 = %+v, want reset 1000 and not allowed", d)
	}
	if d := one(t, OpTake, l, s, 100, 1, ""); !d.Allowed {
		t.Errorf("take at 100 ms = %+v, want allowed", d)
	}
}

func TestRefundNow_GivesBackTheNewestFirst(t *testing.T) {
	tests := []struct {
		name string
		l    Limit
		want int64 // refunded by a refund of 3 after takes of 2 at 0, 400 and 900 ms
	}{
		{"log walks back over entries", Limit{Algorithm: SlidingWindowLog, Count: 10, Window: 10_000}, 3},
		{"sub-windows too", Limit{Algorithm: SlidingWindowBuckets, Count: 10, Window: 10_000, Buckets: 100}, 3},
		{"counter reaches into the previous window", Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 800}, 3},
		{"fixed window only has its own", Limit{Algorithm: FixedWindow, Count: 10, Window: 800}, 2},
		{"bucket", Limit{Algorithm: TokenBucket, Count: 1, Window: 1000, Burst: 10}, 3},
		{"gcra", Limit{Algorithm: GCRA, Count: 1, Window: 1000, Burst: 10}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &State{}
			for _, at := range []int64{0, 400, 900} {
				if d := one(t, OpTake, tt.l, s, at, 2, ""); !d.Allowed {
					t.Fatalf("take at %d: %+v", at, d)
				}
			}
			if d, _ := RefundNow(tt.l, s, 900, 3); d.Refunded != tt.want {
				t.Errorf("refunded %d, want %d", d.Refunded, tt.want)
			}
		})
	}
}
