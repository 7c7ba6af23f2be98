// Package gather queues concurrent calls until they go out together. Its owner decides who sends them, when, and how
// many may wait.
package gather

// Item is the place of a T in a queue. As a field of what T points to, it lets T queue without an allocation.
type Item[T any] struct {
	of          T
	calls, size int
	prev, next  *Item[T] // nil: it is in no queue
}

// Queue holds calls in order of arrival. The zero value is empty. A queue must not be copied. It has no lock: its owner
// has one.
type Queue[T any] struct {
	ring  Item[T] // its next is the first item, its prev the last
	calls int
}

// Len returns how many calls wait.
func (q *Queue[T]) Len() int { return q.calls }

// Push adds t, which is at least one call, behind the others. Its item must be in no queue.
func (q *Queue[T]) Push(i *Item[T], t T, calls, size int) {
	if q.ring.next == nil {
		q.ring.next, q.ring.prev = &q.ring, &q.ring
	}
	i.of, i.calls, i.size = t, calls, size
	q.insert(i, q.ring.prev)
}

// PutBack puts an item that Take has removed in front of the others.
func (q *Queue[T]) PutBack(i *Item[T]) { q.insert(i, &q.ring) }

func (q *Queue[T]) insert(i, after *Item[T]) {
	i.prev, i.next = after, after.next
	i.prev.next, i.next.prev = i, i
	q.calls += i.calls
}

// Remove removes an item and reports whether it was in the queue.
func (q *Queue[T]) Remove(i *Item[T]) bool {
	if i.next == nil {
		return false
	}
	i.prev.next, i.next.prev = i.next, i.prev
	i.prev, i.next = nil, nil
	q.calls -= i.calls
	return true
}

// All iterates in order of arrival. The loop may remove the T of its iteration, and no other.
func (q *Queue[T]) All() func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for next, left := q.ring.next, q.calls; left > 0; {
			i := next
			next, left = i.next, left-i.calls
			if !yield(i.of) {
				return
			}
		}
	}
}

// Take removes a batch, appends it to into, and returns its number of calls. A batch has up to maxCalls and maxSize, or
// one T with more. If send is not nil and returns false for a T, Take removes that T but does not append it.
func (q *Queue[T]) Take(into []T, maxCalls, maxSize int, send func(T) bool) (batch []T, calls int) {
	for size := 0; q.calls > 0; {
		i := q.ring.next
		if calls > 0 && (calls+i.calls > maxCalls || size+i.size > maxSize) {
			break
		}
		q.Remove(i)
		if send == nil || send(i.of) {
			into, calls, size = append(into, i.of), calls+i.calls, size+i.size
		}
	}
	return into, calls
}
