package textmap

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestMap_IsAMap compares maps with Go maps, also those made earlier.
func TestMap_IsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now *Map[int]
		want := map[string]int{}
		for i := range rapid.IntRange(0, 2000).Draw(t, "first") {
			key := fmt.Sprint(i)
			now, want[key] = now.Put(key, i, true), i
		}
		old, was := now, maps.Clone(want)
		for i := range rapid.IntRange(0, 200).Draw(t, "edits") {
			key := fmt.Sprint(rapid.IntRange(0, 2000).Draw(t, "key"))
			if rapid.Bool().Draw(t, "remove") {
				now = now.Remove(key)
				delete(want, key)
				continue
			}
			now, want[key] = now.Put(key, -i, false), -i
		}
		for i := range 2001 {
			key := fmt.Sprint(i)
			if now.Get(key) != want[key] || old.Get(key) != was[key] {
				t.Fatalf("%s: got %d and %d, want %d and %d", key, now.Get(key), old.Get(key), want[key], was[key])
			}
		}
		for key := range want {
			now = now.Remove(key)
		}
		if now != nil {
			t.Fatalf("an emptied map is %+v", now)
		}
	})
}
