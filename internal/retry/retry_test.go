package retry_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/retry"
)

// places try items as they are set to, and write down when and which.
type places struct {
	start time.Time
	hang  chan struct{} // the place that hangs does so until it is closed

	mu    sync.Mutex
	after map[string]time.Duration // of items, Done without
	down  map[string]bool          // places that fail
	tried map[string][]string
}

func (p *places) try(at string, items []string) []time.Duration {
	if at == "hangs" {
		<-p.hang
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried[at] = append(p.tried[at], fmt.Sprint(time.Since(p.start).Milliseconds(), items))
	out := make([]time.Duration, len(items))
	for i, it := range items {
		if out[i] = p.after[it]; p.down[at] {
			out[i] = retry.Failed
		}
	}
	return out
}

func (p *places) set(at string, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down[at] = down
}

// want compares what a place has tried since the last call: the time in ms, and the items.
func (p *places) want(t *testing.T, at string, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.tried[at], want) {
		t.Errorf("%s has tried %q, want %q", at, p.tried[at], want)
	}
	delete(p.tried, at)
}

// queue has room for five items, of which two are tried together. Its clock moves only while all wait.
func queue(t *testing.T, test func(t *testing.T, p *places, q *retry.Queue[string, string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &places{start: time.Now(), after: map[string]time.Duration{}, down: map[string]bool{},
			tried: map[string][]string{}}
		q := retry.New(retry.Options[string, string]{Most: 5, Batch: 2, First: time.Second, Last: 4 * time.Second,
			Life: time.Minute, Try: p.try, Now: time.Now})
		defer q.Close(t.Context()) // the test fails if a goroutine is left
		test(t, p, q)
	})
}

func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

func wantStats(t *testing.T, q *retry.Queue[string, string], waiting, lost int64) {
	t.Helper()
	synctest.Wait()
	if w, l := q.Stats(); w != waiting || l != lost {
		t.Errorf("%d wait and %d are lost, want %d and %d", w, l, waiting, lost)
	}
}

func TestQueue_ABatchThatFailsIsTriedAgainBehindTheOthersAfterPausesThatDouble(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		p.set("us", true)
		now := time.Now()
		for _, it := range []string{"a", "b", "c"} {
			q.Add("us", it, now, now.Add(time.Second))
		}
		q.Add("eu", "d", now, now)
		p.want(t, "eu", "0 [d]")
		pass(12 * time.Second)
		p.want(t, "us", "1000 [a b]", "2000 [c a]", "4000 [b c]", "8000 [a b]", "12000 [c a]")
		p.set("us", false)
		q.Add("eu", "e", time.Now(), time.Now())
		p.want(t, "eu", "12000 [e]")
		wantStats(t, q, 3, 0)
		pass(4 * time.Second)
		p.want(t, "us", "16000 [b c]", "16000 [a]")
		wantStats(t, q, 0, 0)
	})
}

func TestQueue_AnItemThatIsNotDoneYetHoldsUpNoOther(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		p.after["a"] = 10 * time.Second
		for _, it := range []string{"a", "b", "c"} {
			q.Add("us", it, time.Now(), time.Now())
		}
		p.want(t, "us", "0 [a b]", "0 [c]")
		pass(time.Second)
		q.Add("us", "d", time.Now(), time.Now())
		p.want(t, "us", "1000 [d]")
		wantStats(t, q, 1, 0)
		pass(20 * time.Second)
		p.want(t, "us", "10000 [a]", "20000 [a]")
	})
}

func TestQueue_APlaceThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		p.hang = make(chan struct{})
		for _, at := range []string{"hangs", "eu"} {
			q.Add(at, "a", time.Now(), time.Now())
		}
		p.want(t, "eu", "0 [a]")
		for _, at := range []string{"hangs", "eu"} {
			q.Add(at, "b", time.Now(), time.Now())
		}
		p.want(t, "eu", "0 [b]")
		wantStats(t, q, 2, 0)
		p.want(t, "hangs")
		close(p.hang)
		p.want(t, "hangs", "0 [a]", "0 [b]")
	})
}

func TestQueue_IsBoundedInNumberAndAge(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		p.set("us", true)
		now := time.Now()
		for i := range 7 {
			if kept := q.Add("us", "a", now, now); kept != (i < 5) {
				t.Errorf("item %d: kept %v", i, kept)
			}
		}
		wantStats(t, q, 5, 2)
		pass(59 * time.Second)
		wantStats(t, q, 5, 2)
		pass(5 * time.Second) // the place is looked at every 4 s
		wantStats(t, q, 0, 7)
		if q.Add("us", "old", now, time.Now()) {
			t.Error("an item that is too old was kept")
		}
		delete(p.tried, "us")
		q.Add("us", "b", time.Now(), time.Now())
		pass(time.Second)
		p.want(t, "us", "64000 [b]", "65000 [b]") // nothing is left of what failed before
	})
}

func TestQueue_ALastTryIsAtTheEnd(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		p.set("eu", true)
		now := time.Now()
		for _, it := range []string{"a", "b", "c"} {
			q.Add("us", it, now, now.Add(time.Hour))
		}
		q.Add("eu", "d", now, now)
		p.want(t, "eu", "0 [d]")
		q.Close(t.Context())
		p.want(t, "us", "0 [a b]", "0 [c]")
		p.want(t, "eu", "0 [d]", "0 [d]", "0 [d]") // as long as the other gets on
		wantStats(t, q, 0, 1)
		if q.Add("us", "e", now, now) {
			t.Error("a closed queue keeps an item")
		}
		wantStats(t, q, 0, 2)
	})
}

func TestQueue_ALastTryIsOneCallOnceTheTimeIsOver(t *testing.T) {
	queue(t, func(t *testing.T, p *places, q *retry.Queue[string, string]) {
		now := time.Now()
		for _, it := range []string{"a", "b", "c"} {
			q.Add("us", it, now, now.Add(time.Hour))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q.Close(ctx)
		p.want(t, "us", "0 [a b]")
		wantStats(t, q, 0, 1)
	})
}
