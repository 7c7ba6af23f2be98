package retry

import (
	"testing"
	"time"
)

// waiting is a queue whose goroutine does not run, with items that are due in an hour.
func waiting(n int) *Queue[string, int] {
	q := &Queue[string, int]{opt: Options[string, int]{Most: 2 * n, Batch: 100, Life: 2 * time.Hour, Now: time.Now,
		Try: func(_ string, items []int) []time.Duration { return make([]time.Duration, len(items)) }},
		wake: make(chan struct{}, 1), places: map[string]*place[int]{}}
	for i := range n {
		q.Add("us", i, time.Now(), time.Now().Add(time.Hour))
	}
	return q
}

// What waits is looked at when it is due, not whenever something else is added or tried.
func TestQueue_AnItemCostsNoMoreWhileManyWait(t *testing.T) {
	q := waiting(10_000)
	compared := 0
	for _, s := range []*items[int]{&q.places["us"].ready, &q.places["us"].later} {
		order := s.order
		s.order = func(a, b *item[int]) int {
			compared++
			return order(a, b)
		}
	}
	now := time.Now()
	q.Add("us", -1, now, now)
	q.try(false)
	q.run.Wait()
	if left, _ := q.Stats(); left != 10_000 || compared > 100 {
		t.Errorf("%d wait after one of 10,001 was due; items were compared %d times", left, compared)
	}
}

func BenchmarkAdd(b *testing.B) {
	q := waiting(100_000)
	for b.Loop() {
		now := time.Now()
		q.Add("us", -1, now, now)
		q.try(false)
		q.run.Wait()
	}
}
