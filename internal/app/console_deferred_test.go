package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/audit"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// failingQueue drops some batches and then fails.
type failingQueue struct {
	decide.Queue // nil: nothing else is called
	batches      int
}

func (q *failingQueue) Status(context.Context, int64) (decide.QueueStatus, error) {
	return decide.QueueStatus{Depth: 5000}, nil
}

func (q *failingQueue) Drop(context.Context, int64, int64) (int, error) {
	if q.batches--; q.batches < 0 {
		return 0, decide.ErrQueueUnavailable
	}
	return decide.MaxQueueLease, nil
}

// Who drops a queue learns that some of it is left, and what is gone is in the audit log.
func TestConsoleDeferred_DroppingHalfAQueueIsToldAndRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	testenv.SQLiteFrom(t, path, migrated)
	db, err := database.Open(t.Context(), database.Options{DSN: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, batches := range []int{0, 2} {
		store := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = store.Close() })
		checker, err := decide.NewChecker(decide.CheckerOptions{Sets: &match.Current{}, Store: store, Now: time.Now,
			Deferred: &failingQueue{batches: batches}})
		if err != nil {
			t.Fatal(err)
		}
		n, err := deferrals{checker, db}.DropDeferred(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, 7, 1)
		if n != batches*decide.MaxQueueLease || !errors.Is(err, decide.ErrQueueUnavailable) {
			t.Errorf("%d dropped (%v), want %d batches and the error", n, err, batches)
		}
	}
	list, err := db.ListAudit(t.Context(), audit.Query{})
	if err != nil || len(list) != 1 || list[0].Action != "drop" || !strings.Contains(string(list[0].Details), "5000") {
		t.Errorf("%+v (%v), want the drop of the second queue alone", list, err)
	}
}
