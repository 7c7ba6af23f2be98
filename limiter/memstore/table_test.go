package memstore

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTable_BehavesAsAMapEvenWhenHashesCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table[int, int]
		want := map[int]int{}
		bits := rapid.SampledFrom([]uint64{0, 1, 3, 15, 1 << 48, 255, ^uint64(0)}).Draw(t, "hash bits")
		hash := func(k int) uint64 { return (uint64(k) * 0x9e3779b97f4a7c15 & bits) << 8 }
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			k := rapid.IntRange(0, 60).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0, 1, 2:
				if s := tab.find(hash(k), k); s != nil {
					s.value++
				} else {
					tab.add(slot[int, int]{hash: hash(k), deadline: int64(k), key: k, value: 1})
				}
				want[k]++
			case 3:
				_, had := want[k]
				if got := tab.remove(hash(k), k); got != had {
					t.Fatalf("remove(%d) says %v, want %v", k, got, had)
				}
				delete(want, k)
			case 4:
				had := len(want) > 0
				if _, got := tab.evict(); got != had {
					t.Fatalf("evict says %v with %d elements", got, len(want))
				}
				for j := range want {
					if tab.find(hash(j), j) == nil {
						delete(want, j)
						break
					}
				}
			case 5:
				for done := false; !done; {
					_, done = tab.sweep(int64(k/4), 7, nil)
				}
				for j := range want {
					if j < k/4 {
						delete(want, j)
					}
				}
			}
			if len(tab.slots) != len(want) {
				t.Fatalf("%d elements, want %d", len(tab.slots), len(want))
			}
			for j := range 61 {
				s := tab.find(hash(j), j)
				if v, ok := want[j]; ok != (s != nil) || (ok && s.value != v) {
					t.Fatalf("key %d: got %+v, want %d, %v", j, s, v, ok)
				}
			}
		}
	})
}

// spread is a hash good enough for these tests.
func spread(k int) uint64 { return uint64(k) * 0x9e3779b97f4a7c15 }

func TestTable_EvictsWhatExpiresSoonMoreThanWhatStays(t *testing.T) {
	var tab table[int, int]
	for k := range 1000 {
		tab.add(slot[int, int]{hash: spread(k), deadline: int64(k), key: k})
	}
	for range 500 {
		tab.evict()
	}
	late := 0
	for _, s := range tab.slots {
		if s.key >= 500 {
			late++
		}
	}
	if late < 400 {
		t.Errorf("of the 500 that expire last only %d are left", late)
	}
}

func TestTable_GivesMemoryBack(t *testing.T) {
	var tab table[int, int]
	for k := range 100_000 {
		tab.add(slot[int, int]{hash: spread(k), key: k})
	}
	for k := range 99_900 {
		tab.remove(spread(k), k)
	}
	if cap(tab.slots) > 1000 || len(tab.cells) > 4096 {
		t.Errorf("100 elements hold %d slots and %d cells", cap(tab.slots), len(tab.cells))
	}
	if s := tab.find(spread(99_950), 99_950); s == nil {
		t.Error("an element was lost")
	}
}
