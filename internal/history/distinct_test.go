package history

import (
	"fmt"
	"testing"
)

// TestDistinct_EstimatesWithinItsError: 0 to a million keys, each on one of three nodes or on all of them.
func TestDistinct_EstimatesWithinItsError(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 1000, 100_000, 1_000_000} {
		nodes := []*Sketches{NewSketches(), NewSketches(), NewSketches()}
		for i := range n {
			key := fmt.Sprintf("{user:%d}|7|sc", i)
			nodes[i%3].Denied(key)
			nodes[0].Denied(key)
		}
		var parts []Tops
		for _, s := range nodes {
			parts = append(parts, s.Tops())
		}
		merged := unpackTops(packTops(MergeTops(parts), keptKeys))[ByKey].Denied
		got, mayDiffer, known := merged.Estimate()
		if off := got - int64(n); !known || off > mayDiffer || -off > mayDiffer || mayDiffer > int64(n/5+1) {
			t.Errorf("%d keys: %d ± %d (known: %t)", n, got, mayDiffer, known)
		}
		if len(merged) > distinctRegisters {
			t.Errorf("%d keys take %d bytes", n, len(merged))
		}
	}
}

func TestDistinct_IsUnknownIfAPartIs(t *testing.T) {
	s := NewSketches()
	s.Denied("a")
	before := unpackTops(packTops(Tops{ByKey: {Entries: []TopEntry{{Key: "user:a", Denied: 3}}}}, keptKeys))
	if len(before[ByKey].Entries) != 1 {
		t.Fatalf("a row without them reads as %+v", before)
	}
	if _, _, known := MergeTops([]Tops{s.Tops(), before})[ByKey].Denied.Estimate(); known {
		t.Error("the keys of an hour that nobody counted are known")
	}
	if n, _, known := MergeTops([]Tops{s.Tops(), s.Tops()})[ByKey].Denied.Estimate(); n != 1 || !known {
		t.Errorf("%d keys (known: %t), want 1", n, known)
	}
}
