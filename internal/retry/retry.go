// Package retry keeps what could not be done in a bounded queue and tries it again.
//
//	q := retry.New(retry.Options[string, *undo]{Most: 10_000, Batch: 256, First: time.Second, Last: 8 * time.Second,
//		Life: time.Minute, Try: giveBack, Now: time.Now})
//	q.Add("us", u, now, now) // tried now; if "us" fails, again after 1 s, 2 s, 4 s and every 8 s, for a minute
//	defer q.Close(ctx)       // tries what waits a last time
package retry

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"
)

// Options configure a Queue of items T for places P. All are required.
type Options[P comparable, T any] struct {
	// Most is how many items wait at most, and Batch how many of one place are tried together.
	Most, Batch int
	// First and Last bound the pause of a place at which a whole batch failed. It doubles until one does not.
	First, Last time.Duration
	// Life is the age at which an item is lost.
	Life time.Duration
	// Try tries items of one place, the oldest first. For each item it returns Done, Failed, or the pause before the
	// item is tried again although the place works. Try must bound its time. At most one call for each place runs at a
	// time.
	Try func(at P, items []T) []time.Duration
	Now func() time.Time
}

// What Try returns of an item that the place has done, and of one that it has not.
const (
	Done   time.Duration = 0
	Failed time.Duration = -1
)

// Queue holds items until they are done or lost. It is safe for concurrent use and owns a goroutine, which Close stops.
type Queue[P comparable, T any] struct {
	opt  Options[P, T]
	wake chan struct{} // of size 1
	stop chan struct{}
	run  sync.WaitGroup // the goroutine and the calls of Try

	mu            sync.Mutex
	places        map[P]*place[T]
	waiting, lost int64 // waiting includes items that are being tried
	closed        bool
}

// place holds the items of one place, except items that are being tried. No item is tried before due.
type place[T any] struct {
	ready  items[T] // which are due
	later  items[T]
	added  int64
	trying bool
	due    time.Time
	pause  time.Duration
}

type item[T any] struct {
	value      T
	turn       int64 // in which the items of a place were added
	since, due time.Time
}

func newPlace[T any]() *place[T] {
	return &place[T]{ready: items[T]{order: func(a, b *item[T]) int { return cmp.Compare(a.turn, b.turn) }},
		later: items[T]{order: func(a, b *item[T]) int { return a.due.Compare(b.due) }}}
}

// add puts an item behind the others of the place.
func (p *place[T]) add(it item[T]) {
	p.added++
	it.turn = p.added
	heap.Push(&p.later, it)
}

// waiting is the number of items.
func (p *place[T]) waiting() int { return p.ready.Len() + p.later.Len() }

// items are a heap: the least by order is the first.
type items[T any] struct {
	list  []item[T]
	order func(a, b *item[T]) int
}

func (s *items[T]) Len() int           { return len(s.list) }
func (s *items[T]) Less(i, j int) bool { return s.order(&s.list[i], &s.list[j]) < 0 }
func (s *items[T]) Swap(i, j int)      { s.list[i], s.list[j] = s.list[j], s.list[i] }
func (s *items[T]) Push(x any) {
	s.list = append(s.list, x.(item[T])) //nolint:errcheck,forcetypeassert // items
}

func (s *items[T]) Pop() any {
	last := len(s.list) - 1
	it := s.list[last]
	s.list[last] = item[T]{}
	s.list = s.list[:last]
	return it
}

// New starts a Queue.
func New[P comparable, T any](opt Options[P, T]) *Queue[P, T] {
	q := &Queue[P, T]{opt: opt, wake: make(chan struct{}, 1), stop: make(chan struct{}), places: map[P]*place[T]{}}
	q.run.Go(q.repeat)
	return q
}

// Add keeps an item, which is tried from due on and was due to be done since. It reports whether it did: otherwise, and
// after Close, the item is lost. It never blocks.
func (q *Queue[P, T]) Add(at P, value T, since, due time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.waiting >= int64(q.opt.Most) || q.opt.Now().Sub(since) >= q.opt.Life {
		q.lost++
		return false
	}
	p := q.places[at]
	if p == nil {
		p = newPlace[T]()
		q.places[at] = p
	}
	p.add(item[T]{value: value, since: since, due: due})
	q.waiting++
	q.nudge()
	return true
}

// nudge wakes the goroutine, which tries the due items.
func (q *Queue[P, T]) nudge() {
	select {
	case q.wake <- struct{}{}:
	default: // it will
	}
}

// Stats returns how many items wait now and how many were lost. It may be called at any time.
func (q *Queue[P, T]) Stats() (waiting, lost int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.lost
}

// Close stops the goroutine and waits for the calls that are under way. It tries what is left once, and again as long
// as some of it gets done and ctx lasts; the rest is lost. It may be called twice.
func (q *Queue[P, T]) Close(ctx context.Context) {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if !first {
		return
	}
	close(q.stop)
	q.run.Wait()
	rounds := 1 // to try each once
	for _, p := range q.places {
		rounds = max(rounds, (p.waiting()+q.opt.Batch-1)/q.opt.Batch)
	}
	for more := true; more; rounds-- {
		before := q.waiting
		q.try(true)
		q.run.Wait()
		more = (q.waiting < before || rounds > 1) && ctx.Err() == nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.lost = 0, q.lost+q.waiting
}

// repeat tries what is due until Close.
func (q *Queue[P, T]) repeat() {
	for {
		timer := time.NewTimer(q.try(false))
		select {
		case <-q.stop:
			timer.Stop()
			return
		case <-q.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// try begins to try a batch of each place that is due, or at the end of all places. It returns for how long nothing
// else is due.
func (q *Queue[P, T]) try(end bool) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, wait := q.opt.Now(), q.opt.Life
	for at, p := range q.places {
		if p.trying {
			continue
		}
		rests := p.due.Sub(now)
		batch := q.batch(p, now, end)
		switch {
		case len(batch) > 0:
			p.trying = true
			q.run.Go(func() { q.tryAt(at, p, batch) })
		case p.ready.Len() > 0:
			wait = min(wait, rests)
		case p.later.Len() > 0:
			wait = min(wait, max(rests, p.later.list[0].due.Sub(now)))
		default:
			delete(q.places, at)
		}
	}
	return wait
}

// batch takes the items of a place that are tried now, if it does not rest, or at the end whether or not they are due.
func (q *Queue[P, T]) batch(p *place[T], now time.Time, end bool) (batch []item[T]) {
	for p.later.Len() > 0 && (end || !p.later.list[0].due.After(now)) {
		heap.Push(&p.ready, heap.Pop(&p.later))
	}
	for p.ready.Len() > 0 && len(batch) < q.opt.Batch && (end || !p.due.After(now)) {
		it := heap.Pop(&p.ready).(item[T]) //nolint:errcheck,forcetypeassert // items
		if now.Sub(it.since) >= q.opt.Life {
			q.waiting, q.lost = q.waiting-1, q.lost+1
			continue
		}
		batch = append(batch, it)
	}
	return batch
}

// tryAt tries a batch and puts what is not done behind the other items of the place.
func (q *Queue[P, T]) tryAt(at P, p *place[T], batch []item[T]) {
	values := make([]T, len(batch))
	for i := range batch {
		values[i] = batch[i].value
	}
	again := q.opt.Try(at, values)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.opt.Now()
	p.pause = min(max(2*p.pause, q.opt.First), q.opt.Last)
	for i, after := range again {
		if after != Failed {
			p.pause = 0
		}
		if after == Done {
			q.waiting--
			continue
		}
		batch[i].due = now.Add(after)
		p.add(batch[i])
	}
	p.trying, p.due = false, now.Add(p.pause)
	q.nudge()
}
