//go:build !race

package history_test

import (
	"fmt"
	"testing"

	"sluice/internal/history"
)

// A node counts up to two thousand requests a second by each of their keys. If every key is a new one, each takes the
// place of another, and its memory.
func TestSketches_AllocateNothingInAFlood(t *testing.T) {
	values := make([]string, 10_000)
	for i := range values {
		values[i] = fmt.Sprint("user:", i)
	}
	s, n := history.NewSketches(), 0
	add := func() {
		s.AddRequest(uint64(n+1), history.ByKey, values[n%len(values)], true, 1)
		n++
	}
	for range values {
		add()
	}
	if got := testing.AllocsPerRun(1000, add); got > 0 {
		t.Errorf("a new key allocates %v times", got)
	}
}
