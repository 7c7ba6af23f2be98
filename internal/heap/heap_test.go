package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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

func TestBound_ReturnsTheMemoryOfTheWork(t *testing.T) {
	undo := Bound(640 << 20)
	returns(t, undo)
}

func TestRelease_ReturnsTheMemoryOfTheWorkUnlessABoundWillDoIt(t *testing.T) {
	returns(t, Release)
	undo := Bound(640 << 20)
	defer undo()
	before := forced()
	if Release(); forced() != before {
		t.Error("a collection was forced while a bound is in force")
	}
}

// returns fails the test unless release returns memory to the system.
func returns(t *testing.T, release func()) {
	t.Helper()
	const piece, pieces = 64 << 10, 2048 // 128 MiB
	before := held()
	work := make([][]byte, pieces)
	for i := range work {
		work[i] = make([]byte, piece)
	}
	if grown := held() - before; grown < piece*pieces/2 {
		t.Fatalf("the work grew the process by %d bytes, want about %d", grown, piece*pieces)
	}
	runtime.KeepAlive(work)
	release()
	if kept := held() - before; kept > piece*pieces/4 {
		t.Errorf("%d bytes are kept after the work, want few", kept)
	}
}

// forced is the number of collections that the process has asked for.
func forced() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
