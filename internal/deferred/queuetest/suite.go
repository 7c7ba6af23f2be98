// Package queuetest is the test suite of every queue of deferred requests. Queues use clocks of
// their own, so the suite waits where necessary, and only for events that will happen.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/api/decide"
)

// Harness provides the queues for the suite.
type Harness struct {
	// Open returns an empty queue that reports dropped items.
	Open func(t *testing.T, dropped decide.QueueDropped) decide.Queue
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"GivesItemsInTheOrderTheyCame", (*suite).order},
		{"KeepsWhatItWasGiven", (*suite).content},
		{"LeasesAnItemOnceAtATime", (*suite).once},
		{"GivesBackWhatWasNotEnded", (*suite).comesBack},
		{"ReturnedItemsKeepTheirPlace", (*suite).returned},
		{"EndedItemsAreGone", (*suite).ended},
		{"RefusesTheNewestWhenFull", (*suite).full},
		{"DropsWhatIsTooOldWithACount", (*suite).age},
		{"TakesAnItemOnceByItsID", (*suite).sameID},
		{"LeavesOutBuckets", (*suite).buckets},
		{"RulesDoNotMeet", (*suite).apart},
		{"ListsTheRulesForWhichSomethingWaits", (*suite).lists},
		{"PassesOverForeignTickets", (*suite).foreign},
		{"RefusesWhatIsOutOfBounds", (*suite).bounds},
		{"DropsWhatAPersonSawAndNothingLater", (*suite).byHand},
		{"TwoRunnersShareTheWork", (*suite).runners},
		{"WithdrawsWhatWaits", (*suite).withdraws},
		{"WithdrawsNothingThatOthersHave", (*suite).keeps},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, ctx: t.Context()}
			s.q = h.Open(t, s.drop)
			c.test(s)
		})
	}
}

type suite struct {
	*testing.T
	ctx context.Context
	q   decide.Queue

	mu      sync.Mutex
	dropped map[int64]int
}

func (s *suite) drop(rule int64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped == nil {
		s.dropped = map[int64]int{}
	}
	s.dropped[rule] += n
}

func (s *suite) drops(rule int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped[rule]
}

var roomy = decide.QueueBounds{Items: 1000, Age: time.Hour}

// put adds an item whose body identifies it.
func (s *suite) put(rule int64, body string, edit ...func(*decide.QueueItem)) string {
	s.Helper()
	it := decide.QueueItem{Body: []byte(body), Bucket: "b"}
	for _, e := range edit {
		e(&it)
	}
	ticket, err := s.q.Put(s.ctx, rule, it, roomy)
	if err != nil || ticket == "" {
		s.Fatalf("put %q: ticket %q, %v", body, ticket, err)
	}
	return ticket
}

func (s *suite) lease(rule int64, n int, hold time.Duration, except ...string) []decide.QueueItem {
	s.Helper()
	items, err := s.q.Lease(s.ctx, rule, decide.QueueWant{Max: n, Hold: hold, Except: except})
	if err != nil {
		s.Fatal(err)
	}
	return items
}

func (s *suite) finish(rule int64, done, back []string) int {
	s.Helper()
	n, err := s.q.Finish(s.ctx, rule, done, back)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *suite) depth(rule int64, want int64) {
	s.Helper()
	st, err := s.q.Status(s.ctx, rule)
	if err != nil || st.Depth != want || st.Age < 0 || want == 0 && st.Age != 0 {
		s.Fatalf("got %+v, %v, want a depth of %d", st, err, want)
	}
}

// eventually polls until ok returns true, for at most 20 s.
func (s *suite) eventually(ok func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			s.Fatal("it never came to pass")
		case <-tick.C:
		}
	}
}

func bodies(items []decide.QueueItem) string {
	var out []string
	for _, it := range items {
		out = append(out, string(it.Body))
	}
	return strings.Join(out, " ")
}

func tickets(items []decide.QueueItem) (out []string) {
	for _, it := range items {
		out = append(out, it.Ticket)
	}
	return out
}

func (s *suite) wantBodies(items []decide.QueueItem, want string) {
	s.Helper()
	if got := bodies(items); got != want {
		s.Fatalf("got %q, want %q", got, want)
	}
}

func (s *suite) order() {
	for i := range 120 {
		s.put(1, strconv.Itoa(i))
	}
	next := 0
	for _, n := range []int{1, 50, 3, 100} {
		for _, it := range s.lease(1, n, time.Minute) {
			if string(it.Body) != strconv.Itoa(next) {
				s.Fatalf("got %s, want %d", it.Body, next)
			}
			next++
		}
	}
	if next != 120 {
		s.Errorf("%d items, want 120", next)
	}
	s.depth(1, 120) // leased items count until they are removed
}

func (s *suite) content() {
	body := "\x00\x01{\"a\":1}\r\n\xff" + strings.Repeat("x", decide.MaxQueueBody-12)
	ticket := s.put(7, body, func(it *decide.QueueItem) {
		it.ID, it.Bucket = "an id",
			strings.Repeat("k", decide.MaxQueueName)
	})
	s.put(7, "")
	items := s.lease(7, 10, time.Minute)
	if len(items) != 2 {
		s.Fatalf("%d items", len(items))
	}
	it := items[0]
	if string(it.Body) != body || it.Ticket != ticket || it.ID != "an id" ||
		it.Bucket != strings.Repeat("k", decide.MaxQueueName) || it.Deliveries != 1 {
		it.Body = nil
		s.Errorf("got %+v, or another body", it)
	}
	if it.Expires-it.At != time.Hour.Milliseconds() || it.At < 1_600_000_000_000 {
		s.Errorf("put at %d, dropped at %d", it.At, it.Expires)
	}
	if len(items[1].Body) != 0 {
		s.Errorf("an empty body became %q", items[1].Body)
	}
}

func (s *suite) once() {
	s.put(1, "a")
	s.wantBodies(s.lease(1, 10, time.Hour), "a")
	s.wantBodies(s.lease(1, 10, time.Millisecond), "") // a short lease does not end other leases
	s.put(1, "b")
	s.wantBodies(s.lease(1, 10, time.Hour), "b")
}

func (s *suite) comesBack() {
	s.put(1, "a")
	s.put(1, "b")
	s.lease(1, 1, time.Millisecond)
	var items []decide.QueueItem
	s.eventually(func() bool {
		items = append(items, s.lease(1, 1, time.Hour)...)
		return len(items) > 0 && string(items[len(items)-1].Body) == "a"
	})
	if it := items[len(items)-1]; it.Deliveries != 2 {
		s.Errorf("%d deliveries, want 2", it.Deliveries)
	}
}

func (s *suite) returned() {
	for _, b := range []string{"a", "b", "c"} {
		s.put(1, b)
	}
	got := s.lease(1, 2, time.Hour)
	s.finish(1, nil, tickets(got))
	again := s.lease(1, 3, time.Hour)
	s.wantBodies(again, "a b c")
	for _, it := range again {
		if it.Deliveries != 1 {
			s.Errorf("%s: %d deliveries, want 1: a returned item was not delivered", it.Body, it.Deliveries)
		}
	}
}

func (s *suite) ended() {
	s.put(1, "a")
	s.put(1, "b")
	got := s.lease(1, 2, time.Hour)
	if n := s.finish(1, tickets(got[:1]), tickets(got[1:])); n != 1 {
		s.Errorf("ended %d, want 1", n)
	}
	s.depth(1, 1)
	if n := s.finish(1, tickets(got[:1]), nil); n != 0 {
		s.Errorf("ended the same again: %d", n)
	}
	s.wantBodies(s.lease(1, 2, time.Hour), "b")
	if n := s.finish(1, tickets(got), nil); n != 1 {
		s.Errorf("ended %d, want 1", n)
	}
	s.depth(1, 0)
	s.wantBodies(s.lease(1, 2, time.Hour), "")
}

func (s *suite) full() {
	b := decide.QueueBounds{Items: 2, Age: time.Hour}
	for i := range 2 {
		if _, err := s.q.Put(s.ctx, 1, decide.QueueItem{Body: []byte{byte('a' + i)}}, b); err != nil {
			s.Fatal(err)
		}
	}
	got := s.lease(1, 1, time.Hour)
	if _, err := s.q.Put(s.ctx, 1, decide.QueueItem{Body: []byte("c")}, b); !errors.Is(err, decide.ErrQueueFull) {
		s.Errorf("got %v, want ErrFull", err)
	}
	s.finish(1, tickets(got), nil)
	if _, err := s.q.Put(s.ctx, 1, decide.QueueItem{Body: []byte("d")}, b); err != nil {
		s.Error(err)
	}
	s.wantBodies(s.lease(1, 5, time.Hour), "b d")
}

func (s *suite) age() {
	short := decide.QueueBounds{Items: 10, Age: time.Millisecond}
	for range 3 {
		if _, err := s.q.Put(s.ctx, 1, decide.QueueItem{Body: []byte("old")}, short); err != nil {
			s.Fatal(err)
		}
	}
	s.put(1, "young")
	s.eventually(func() bool { st, err := s.q.Status(s.ctx, 1); return err == nil && st.Depth == 1 })
	s.wantBodies(s.lease(1, 5, time.Hour), "young")
	if got := s.drops(1); got != 3 {
		s.Errorf("dropped %d, want 3", got)
	}
}

func (s *suite) sameID() {
	named := func(it *decide.QueueItem) { it.ID = "r" }
	first := s.put(1, "a", named)
	s.put(1, "b")
	if again := s.put(1, "a", named); again != first {
		s.Errorf("tickets %q and %q for one id", first, again)
	}
	if other := s.put(2, "a", named); other == "" {
		s.Error("an id of another rule counted")
	}
	got := s.lease(1, 5, time.Hour)
	s.wantBodies(got, "a b")
	if again := s.put(1, "a", named); again != first {
		s.Errorf("tickets %q and %q while it is leased", first, again)
	}
	s.finish(1, tickets(got), nil)
	if again := s.put(1, "a", named); again == first {
		s.Error("an item that had ended was taken for a new one")
	}
	s.depth(1, 1)
}

func (s *suite) buckets() {
	for _, b := range []string{"x1", "y1", "x2", "z1", "y2"} {
		s.put(1, b, func(it *decide.QueueItem) { it.Bucket = b[:1] })
	}
	s.wantBodies(s.lease(1, 2, time.Hour, "x"), "y1 z1")
	s.wantBodies(s.lease(1, 5, time.Hour, "y"), "x1 x2")
	s.wantBodies(s.lease(1, 5, time.Hour), "y2")
}

func (s *suite) apart() {
	s.put(1, "one")
	s.put(2, "two")
	s.wantBodies(s.lease(2, 5, time.Hour), "two")
	s.wantBodies(s.lease(3, 5, time.Hour), "")
	s.depth(3, 0)
	s.wantBodies(s.lease(1, 5, time.Hour), "one")
}

func (s *suite) lists() {
	wants := func(most int, want ...int64) {
		s.Helper()
		if got, err := s.q.Rules(s.ctx, most); err != nil || !slices.Equal(got, want) {
			s.Errorf("rules %v, %v; want %v", got, err, want)
		}
	}
	wants(10)
	waiting := s.put(7, "seven")
	s.put(300, "three hundred")
	s.put(2, "two")
	wants(10, 2, 7, 300)
	wants(2, 2, 7)
	s.lease(7, 5, time.Hour)
	wants(10, 2, 7, 300) // leased items are not removed
	s.finish(7, []string{waiting}, nil)
	wants(10, 2, 300)
}

func (s *suite) foreign() {
	waiting := s.put(1, "a")
	strange := []string{"", "0-0", "99999999999999-7", "zz", "-", "x y", strings.Repeat("9", 60), "\x00", waiting}
	if n := s.finish(1, strange, strange); n != 0 {
		s.Errorf("ended %d of what was not leased", n)
	}
	if n := s.finish(9, strange, nil); n != 0 {
		s.Errorf("ended %d of a rule without a queue", n)
	}
	s.wantBodies(s.lease(1, 5, time.Hour), "a")
}

func (s *suite) bounds() {
	for name, it := range map[string]decide.QueueItem{
		"body":   {Body: make([]byte, decide.MaxQueueBody+1)},
		"bucket": {Bucket: strings.Repeat("b", decide.MaxQueueName+1)},
		"id":     {ID: strings.Repeat("i", decide.MaxQueueName+1)},
	} {
		if _, err := s.q.Put(s.ctx, 1, it, roomy); !errors.Is(err, decide.ErrQueueInvalid) {
			s.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	for _, w := range []decide.QueueWant{
		{Max: 0, Hold: time.Second}, {Max: decide.MaxQueueLease + 1, Hold: time.Second}, {Max: 1},
		{Max: 1, Hold: decide.MaxQueueHold + 1},
	} {
		if _, err := s.q.Lease(s.ctx, 1, w); !errors.Is(err, decide.ErrQueueInvalid) {
			s.Errorf("%+v: got %v, want ErrInvalid", w, err)
		}
	}
	s.depth(1, 0)
}

// runners has two goroutines lease and remove everything while a third puts items.
func (s *suite) runners() {
	const items = 300
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	note := func(got []decide.QueueItem) int {
		mu.Lock()
		defer mu.Unlock()
		for _, it := range got {
			seen[string(it.Body)]++
		}
		return len(seen)
	}
	var wg sync.WaitGroup
	try := func(err error) bool {
		if err != nil {
			s.Error(err)
			cancel()
		}
		return err == nil
	}
	wg.Go(func() {
		for i := range items {
			if _, err := s.q.Put(ctx, 1, decide.QueueItem{Body: fmt.Append(nil, i)}, roomy); !try(err) {
				return
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for note(nil) < items && ctx.Err() == nil {
				got, err := s.q.Lease(ctx, 1, decide.QueueWant{Max: 7, Hold: time.Hour})
				if !try(err) {
					return
				}
				note(got)
				if _, err := s.q.Finish(ctx, 1, tickets(got), nil); !try(err) {
					return
				}
			}
		})
	}
	wg.Wait()
	for body, n := range seen {
		if n != 1 {
			s.Errorf("item %s was given %d times", body, n)
		}
	}
	if len(seen) != items {
		s.Errorf("%d items, want %d", len(seen), items)
	}
	s.depth(1, 0)
}

// byHand drops what was there at an instant, leased or not. Items that come later stay, and tickets of dropped ones are
// of no use.
func (s *suite) byHand() {
	s.put(2, "of another rule")
	s.put(1, "leased twice")
	s.lease(1, 1, time.Millisecond)
	var leased []decide.QueueItem
	s.eventually(func() bool {
		leased = s.lease(1, 1, time.Hour)
		return len(leased) == 1
	})
	s.put(1, "leased once")
	leased = append(leased, s.lease(1, 1, time.Hour)...)
	s.put(1, "waits", func(it *decide.QueueItem) { it.ID = "mine" })
	st, err := s.q.Status(s.ctx, 1)
	if err != nil || st.Depth != 3 || st.Repeated != 1 || st.At == 0 {
		s.Fatalf("got %+v, %v, want 3 items, one of them leased more than once", st, err)
	}
	s.eventually(func() bool { now, err := s.q.Status(s.ctx, 1); return err == nil && now.At > st.At })
	later := s.put(1, "later")
	if n, err := s.q.Drop(s.ctx, 1, st.At); err != nil || n != 3 {
		s.Fatalf("dropped %d, %v, want 3", n, err)
	}
	s.depth(1, 1)
	s.depth(2, 1)
	if n := s.finish(1, []string{leased[0].Ticket, leased[1].Ticket}, nil); n != 0 {
		s.Errorf("%d dropped items were acknowledged", n)
	}
	if again := s.put(1, "mine again", func(it *decide.QueueItem) { it.ID = "mine" }); again == later {
		s.Error("an item with the id of a dropped one is taken for another")
	}
	if got := s.lease(1, 9, time.Hour); len(got) != 2 || string(got[0].Body) != "later" {
		s.Errorf("what is left: %+v", got)
	}
	if n, err := s.q.Drop(s.ctx, 99, st.At); err != nil || n != 0 {
		s.Errorf("of a rule without a queue: %d, %v", n, err)
	}
	if _, err := s.q.Drop(s.ctx, 1, -1); !errors.Is(err, decide.ErrQueueInvalid) {
		s.Errorf("before the epoch: %v", err)
	}
	if s.drops(1) != 0 {
		s.Error("items that a person dropped are reported as too old")
	}
	many := decide.MaxQueueLease + 7
	for i := range many {
		if _, err := s.q.Put(s.ctx, 3, decide.QueueItem{Body: []byte(strconv.Itoa(i))},
			decide.QueueBounds{Items: 5000, Age: time.Hour}); err != nil {
			s.Fatal(err)
		}
	}
	for _, want := range []int{decide.MaxQueueLease, 7, 0} {
		if n, err := s.q.Drop(s.ctx, 3, 1<<52); err != nil || n != want {
			s.Fatalf("of %d: dropped %d, %v, want %d", many, n, err, want)
		}
	}
	s.depth(3, 0)
}
