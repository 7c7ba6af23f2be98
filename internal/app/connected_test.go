package app

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// hungStore answers when the caller gives up, or after the time that a call of the rules database takes at most.
type hungStore struct{ calls int }

func (s *hungStore) NoteAsked(ctx context.Context, _ []string, _ time.Time) error {
	s.calls++
	select {
	case <-ctx.Done():
	case <-time.After(15 * time.Second):
	}
	return context.DeadlineExceeded
}

// A rules database that hangs must not take the time that the other parts have to stop: they write what is in memory.
func TestFirstQuestions_LeaveTimeToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock moves only while all wait
		store, parts := &hungStore{}, &stops{log: slog.New(slog.DiscardHandler)}
		noteFirstQuestions(&Host{Now: time.Now, Log: parts.log}, store, parts)("edge")
		synctest.Wait()
		began := time.Now()
		wait, cancel := context.WithTimeout(t.Context(), stopTimeout)
		defer cancel()
		if err := parts.unwind(wait); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > usesTimeout || store.calls != 2 {
			t.Errorf("took %s and %d calls, want at most %s and a last call", took, store.calls, usesTimeout)
		}
	})
}
