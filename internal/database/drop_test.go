package database

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/internal/audit"
)

// What is gone must be recorded, so dropping a long queue must not outlast the transaction.
func TestNoteDrop_LeavesTimeToRecord(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := d.NoteDrop(t.Context(), ada, 77, "mails", 5, func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				return errors.New("the time is not bounded")
			}
			<-ctx.Done()
			return nil // some are gone
		}); err != nil {
			t.Fatal(err)
		}
		if list, err := d.ListAudit(t.Context(), audit.Query{}); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestNoteDrop_IsRecordedIfAndOnlyIfItSucceeds(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		failed := errors.New("the queue is gone")
		for _, want := range []error{failed, nil} {
			if err := d.NoteDrop(t.Context(), ada, 77, "mails", 5,
				func(context.Context) error { return want }); !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
		}
		list, err := d.ListAudit(t.Context(), audit.Query{})
		if err != nil || len(list) != 1 || list[0].Action != "drop" || list[0].SubjectID != 77 ||
			list[0].SubjectName != "mails" || list[0].Actor != ada || !strings.Contains(string(list[0].Details), "5") {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
