package region

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

func TestParts_AddUpToWhatIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.Int64Range(-5, limiter.MaxExact).Draw(t, "left")
		demands := rapid.SliceOfN(rapid.Int64Range(0, limiter.MaxExact), 1, 50).Draw(t, "demands")
		sum := int64(0)
		for _, p := range Parts(left, demands) {
			if p < 0 {
				t.Fatalf("a part of %d", p)
			}
			sum += p
		}
		if sum != max(left, 0) {
			t.Fatalf("%d in all, want %d", sum, left)
		}
	})
}

func TestParts_FollowDemandAndLeaveSomethingToTheSilent(t *testing.T) {
	for _, c := range []struct {
		left    int64
		demands []int64
		want    []int64
	}{
		{90, []int64{5, 5, 5}, []int64{30, 30, 30}},
		{90, []int64{500, 0, 0}, []int64{76, 7, 7}},
		{90, []int64{0, 0, 0}, []int64{30, 30, 30}},
		{7, []int64{1, 0}, []int64{4, 3}},
		{0, []int64{4, 4}, []int64{0, 0}},
		{5, nil, nil},
	} {
		if got := Parts(c.left, c.demands); !slices.Equal(got, c.want) {
			t.Errorf("%d for %v: %v, want %v", c.left, c.demands, got, c.want)
		}
	}
}

func TestGuard_GivesAPartOfWhatWasLeft(t *testing.T) {
	g := NewGuard(100, 65, 25, 20, []int64{40, 40, 40}, 0)
	for taken, want := range map[int64]int64{20: 14, 25: 9, 34: 0, 90: 0} {
		if got := g.Room(taken); got != want {
			t.Errorf("room for %d after %d, want %d", got, taken, want)
		}
	}
	if g := ColdGuard(Open, 100, 3); g.Room(0) != 100 {
		t.Errorf("%+v, want the limit", g)
	}
	if g := ColdGuard(Share, 100, 3); g.Room(0) != 33 {
		t.Errorf("%+v, want a third of the limit", g)
	}
	if g := ColdGuard(Share, 2, 3); g.Room(0) != 1 {
		t.Errorf("%+v, want one unit", g)
	}
	if g := ColdGuard(Share, 0, 3); g.Room(0) != 0 {
		t.Errorf("%+v, want nothing of a limit of 0", g)
	}
}

func TestBound_IsWhatTheOthersAdmitUnheard(t *testing.T) {
	for _, c := range []struct {
		rate, delay, interval int64
		regions               int
		want                  int64
	}{{120, 100, 200, 3, 24}, {120, 100, 200, 1, 0}, {1, 100, 200, 2, 1}, {0, 100, 200, 5, 0}} {
		if got := Bound(c.rate, c.delay, c.interval, c.regions); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
