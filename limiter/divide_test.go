package limiter

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDivide_GivesWhatIsNeededAndDividesTheRest(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, floor int64
		demands      []int64
		want         []int64
	}{
		{"nobody", 100, 5, nil, nil},
		{"enough for all", 100, 0, []int64{10, 20, 30}, []int64{10, 20, 30}},
		{"small demands first", 100, 0, []int64{10, 80, 80}, []int64{10, 45, 45}},
		{"what does not divide goes to the first", 11, 0, []int64{9, 9, 9}, []int64{4, 4, 3}},
		{"the silent keep a floor", 100, 8, []int64{0, 500, 0}, []int64{8, 84, 8}},
		{"a floor above an equal part", 10, 50, []int64{0, 500}, []int64{5, 5}},
		{"nothing to divide", 0, 5, []int64{3, 4}, []int64{0, 0}},
		{"less than one each", 2, 1, []int64{3, 4, 5}, []int64{1, 1, 0}},
		{"negative numbers", -5, -5, []int64{-3, 4}, []int64{0, 0}},
		{"the largest numbers", MaxExact, 1, []int64{math.MaxInt64, math.MaxInt64},
			[]int64{MaxExact/2 + 1, MaxExact / 2}},
	} {
		if got := Divide(c.limit, c.floor, c.demands); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// drawDemands draws the demands of up to 50 holders.
func drawDemands(t *rapid.T) (limit, floor int64, demands []int64) {
	most := rapid.SampledFrom([]int64{3, 1000, MaxExact, math.MaxInt64}).Draw(t, "most")
	limit = rapid.Int64Range(0, min(most, MaxExact)).Draw(t, "limit")
	floor = rapid.Int64Range(0, limit/2+1).Draw(t, "floor")
	return limit, floor, rapid.SliceOfN(rapid.Int64Range(0, most), 1, 50).Draw(t, "demands")
}

func TestDivide_IsMaxMinFairAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, floor, demands := drawDemands(t)
		shares := Divide(limit, floor, demands)
		least := min(floor, limit/int64(len(demands)))
		sum, needed := int64(0), int64(0)
		for i, s := range shares {
			need := max(demands[i], least)
			if s > need {
				t.Fatalf("holder %d gets %d and needs %d", i, s, need)
			}
			if s < least {
				t.Fatalf("holder %d gets %d, below the floor %d", i, s, least)
			}
			sum, needed = sum+s, addSat(needed, need)
			for j, other := range shares {
				short := other < max(demands[j], least)
				if short && (s > other+1 || s == other+1 && i > j) {
					t.Fatalf("holder %d gets %d while holder %d is short with %d", i, s, j, other)
				}
			}
		}
		if sum != min(limit, needed) {
			t.Fatalf("the shares add up to %d, want %d of %d", sum, min(limit, needed), limit)
		}
		if again := Divide(limit, floor, demands); !slices.Equal(shares, again) {
			t.Fatalf("divided twice: %v and %v", shares, again)
		}
	})
}

func TestDivide_MoreDemandNeverMeansLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, floor, demands := drawDemands(t)
		i := rapid.IntRange(0, len(demands)-1).Draw(t, "holder")
		before := Divide(limit, floor, demands)[i]
		demands[i] = rapid.Int64Range(demands[i], math.MaxInt64).Draw(t, "more")
		if after := Divide(limit, floor, demands)[i]; after < before {
			t.Fatalf("the share fell from %d to %d", before, after)
		}
	})
}
