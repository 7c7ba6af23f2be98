package region

import (
	"fmt"
	"slices"
	"testing"

	"sluice/limiter"
)

// Every region finds the same order for a key, each has a place of its own, and keys differ.
func TestRank_IsAnOrderOfTheRegions(t *testing.T) {
	names, first := []string{"eu", "us", "asia", "africa"}, map[string]int{}
	for i := range 1000 {
		key, ranks := limiter.Key(fmt.Sprintf("{user:%d}|7|fw", i)), []int{}
		for j, self := range names {
			others := slices.Concat(names[j+1:], names[:j])
			rank := Rank(key, self, others)
			if ranks = append(ranks, rank); rank == 0 {
				first[self]++
			}
			if other := Rank(key[:len(key)-4]+"9|tb", self, others); other != rank {
				t.Errorf("%s: %s has places %d and %d for one entity", key, self, rank, other)
			}
		}
		if slices.Sort(ranks); !slices.Equal(ranks, []int{0, 1, 2, 3}) {
			t.Errorf("%s: places %v", key, ranks)
		}
	}
	for _, name := range names {
		if first[name] < 200 || first[name] > 300 {
			t.Errorf("%s is first for %d of 1000 keys, want about a quarter", name, first[name])
		}
	}
}
