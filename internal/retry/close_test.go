package retry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/retry"
)

// Close tries everything that waits at least once, although the first batch of its place fails.
func TestClose_TriesWhatWaitsBehindABatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{start: time.Now(), after: map[string]time.Duration{"a": retry.Failed, "b": retry.Failed},
			down: map[string]bool{}, tried: map[string][]string{}}
		q := retry.New(retry.Options[string, string]{Most: 5, Batch: 2, First: time.Second, Last: 4 * time.Second,
			Life: time.Minute, Try: p.try, Now: time.Now})
		now := time.Now()
		for _, it := range []string{"a", "b", "c", "d"} {
			q.Add("us", it, now, now.Add(time.Second))
		}
		q.Close(t.Context())
		if waiting, lost := q.Stats(); waiting != 0 || lost != 2 {
			t.Errorf("%d wait, %d are lost, want 0 and the two that fail; tried %v", waiting, lost, p.tried)
		}
	})
}
