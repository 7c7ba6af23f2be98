package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// withoutPause is the rest of a save that takes none.
func withoutPause() {}

// A write shares the processor all the time it takes, and not only on average. Time
// is virtual here.
func TestWriteSlowly_RestsBetweenPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, piece = 1000, 300 * time.Microsecond
		begun, ended := make(chan time.Time, 9), make(chan time.Time, 9)
		ctx, cancel := context.WithCancel(t.Context())
		save := func(rest func()) {
			begun <- time.Now()
			for range pieces {
				<-time.After(piece) // virtual work
				rest()
			}
			ended <- time.Now()
		}
		wake := make(chan struct{}, 1)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			writePaced(ctx, time.Now, wake, nil, save)
		}()

		wake <- struct{}{}
		first := <-begun
		wake <- struct{}{}
		took := (<-ended).Sub(first)
		if want := (1 + pauseFactor) * pieces * piece; took != want {
			t.Errorf("a write of %v took %v, want %v with its rests", pieces*piece, took, want)
		}
		second := <-begun
		if got, want := second.Sub(first), (1+totalPauseFactor)*pieces*piece; got != want {
			t.Errorf("the next write began after %v, want %v", got, want)
		}

		<-time.After(time.Second)
		cancel()
		synctest.Wait()
		if last := (<-ended).Sub(second); last > time.Second+pieces*piece {
			t.Errorf("the end waited for rests: the write under way took %v", last)
		}
		if <-begun; (<-ended).IsZero() {
			t.Error("the last write is missing")
		}
		<-stopped
	})
}

func TestWriteSlowly_AStallDoesNotKeepACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{now: time.Now, began: time.Now()}
		<-time.After(10 * time.Second)
		stalled := time.Now()
		p.step(t.Context())
		if got := time.Since(stalled); got != maxPause {
			t.Errorf("paused %v after a stall, want %v", got, maxPause)
		}
	})
}
