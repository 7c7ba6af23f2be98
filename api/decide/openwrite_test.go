package decide

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// heldList is a list whose writes wait for a signal.
type heldList struct {
	ReservationList
	mu      sync.Mutex
	batches [][]string
	release chan struct{}
}

func (l *heldList) Write(ctx context.Context, changes []*ListChange) {
	var names []string
	for _, c := range changes {
		names = append(names, c.Name)
	}
	l.mu.Lock()
	l.batches = append(l.batches, names)
	l.mu.Unlock()
	select {
	case <-l.release:
	case <-ctx.Done():
	}
	for _, c := range changes {
		c.Err = ctx.Err()
	}
}

func TestOpenReservations_WriteWhatWaitsTogetherInOrder(t *testing.T) {
	l := &heldList{release: make(chan struct{})}
	close(l.release)
	o := NewOpenReservations(l, nil)
	for i := range 1000 {
		o.later(&ListChange{Name: fmt.Sprint(i)})
	}
	o.flush(t.Context())
	var n int
	for _, batch := range l.batches {
		for _, name := range batch {
			if name != fmt.Sprint(n) {
				t.Fatalf("change %d is that of %s", n, name)
			}
			n++
		}
	}
	if n != 1000 || len(l.batches) != 4 {
		t.Errorf("%d changes in %d batches", n, len(l.batches))
	}
}

func TestOpenReservations_RequestsThatWaitAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &heldList{release: make(chan struct{})}
		c := &Checker{opt: CheckerOptions{Open: NewOpenReservations(l, nil), Timeout: time.Second}}
		var all sync.WaitGroup
		for range 204 {
			all.Go(func() {
				if err := c.writeNow(t.Context(), &ListChange{Name: "x"}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(l.release)
		all.Wait()
		if n := len(l.batches); n > 2*listWriters {
			t.Errorf("204 changes took %d batches", n)
		}
	})
}

// The request that writes a batch ends, and the others of the batch do not.
func TestOpenReservations_ARequestThatEndsDoesNotEndTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &heldList{release: make(chan struct{})}
		c := &Checker{opt: CheckerOptions{Open: NewOpenReservations(l, nil), Timeout: time.Second}}
		for range listWriters { // so that the next ones wait for their turn
			go func() { _ = c.writeNow(t.Context(), &ListChange{Name: "first"}) }()
		}
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := c.writeNow(gone, &ListChange{Name: "gone"}); !errors.Is(err, context.Canceled) {
				t.Errorf("the one that left: %v", err)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		all.Go(func() {
			if err := c.writeNow(t.Context(), &ListChange{Name: "stays"}); err != nil {
				t.Errorf("the one that stayed: %v", err)
			}
		})
		synctest.Wait()
		close(l.release)
		all.Wait()
		if last := l.batches[len(l.batches)-1]; len(last) != 1 || last[0] != "stays" {
			t.Errorf("the last batch was %v", last)
		}
	})
}
