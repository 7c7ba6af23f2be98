package home

import (
	"fmt"
	"slices"
	"testing"

	"sluice/limiter"
)

func keyOf(i int) limiter.Key { return limiter.Key(fmt.Sprintf("{user:%d}|7|fw", i)) }

// Nodes of different versions agree about homes, so these must never change.
func TestOf_StaysAsItIs(t *testing.T) {
	regions := []string{"eu", "us", "asia"}
	for key, want := range map[limiter.Key]string{
		"{user:ada}|1|fw": "us", "{user:bob}|1|fw": "eu", "{ip:203.0.113.7}|2|sc": "eu",
		"{global}|3|tb": "us", "{user:ada}+ip:203.0.113.7|9|co": "us",
	} {
		if got := Of(key, regions); got != want {
			t.Errorf("%s is at home in %s, want %s", key, got, want)
		}
		slices.Reverse(regions)
	}
	if got := Of("{user:ada}|1|fw", nil); got != "" {
		t.Errorf("without regions the home is %q", got)
	}
}

func TestOf_AllBucketsOfAnEntityAreAtOnePlace(t *testing.T) {
	regions := []string{"a", "b", "c", "d", "e"}
	for i := range 1000 {
		k := keyOf(i)
		if Of(k, regions) != Of(limiter.BanKey(k), regions) || Of(k, regions) != Of(k[:len(k)-4]+"19|co", regions) {
			t.Fatalf("%s is not with its other buckets", k)
		}
	}
}

// Each region is home of about an equal part, and a change of the list moves only the keys of the region that comes or
// goes.
func TestOf_IsEvenAndMovesOnlyWhatItMust(t *testing.T) {
	const keys = 40_000
	for _, n := range []int{2, 3, 5, 10, 50} {
		var regions []string
		for i := range n {
			regions = append(regions, fmt.Sprintf("region-%d", i))
		}
		more := append(slices.Clone(regions), "new")
		homes, moved := map[string]int{}, 0
		for i := range keys {
			before, after := Of(keyOf(i), regions), Of(keyOf(i), more)
			homes[before]++
			if before != after {
				if moved++; after != "new" {
					t.Fatalf("%s moved from %s to %s", keyOf(i), before, after)
				}
			}
		}
		even := keys / n
		for name, got := range homes {
			if got < even*85/100 || got > even*115/100 {
				t.Errorf("%d regions: %s is home of %d keys, even would be %d", n, name, got, even)
			}
		}
		if most := keys / (n + 1) * 115 / 100; moved > most {
			t.Errorf("%d regions: %d keys moved to a new one, want at most about %d", n, moved, most)
		}
	}
}
