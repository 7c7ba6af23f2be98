package heap

import (
	"math"
	"runtime/debug"
	"testing"
)

func limit() int64 { return debug.SetMemoryLimit(-1) }

func TestBound_HoldsUntilTheLastIsUndone(t *testing.T) {
	was := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(was)
	first := Bound(100 << 20)
	bound := limit()
	if now := held(); bound < now || bound > now+200<<20 {
		t.Errorf("limit %d with %d held, want about 100 MiB more", bound, now)
	}
	second := Bound(1 << 20)
	if limit() != bound {
		t.Error("a second bound changed the first")
	}
	first()
	first() // once is enough
	if limit() != bound {
		t.Error("the bound ended before its last user")
	}
	second()
	if limit() != math.MaxInt64 {
		t.Errorf("limit %d afterwards, want none", limit())
	}
}

func TestBound_LeavesALowerLimit(t *testing.T) {
	was := debug.SetMemoryLimit(50 << 20)
	defer debug.SetMemoryLimit(was)
	undo := Bound(1 << 40)
	if limit() != 50<<20 {
		t.Errorf("limit %d, want the one that was set", limit())
	}
	undo()
	if limit() != 50<<20 {
		t.Errorf("limit %d afterwards, want the one that was set", limit())
	}
}
