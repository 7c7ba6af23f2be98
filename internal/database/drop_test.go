package database

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/internal/audit"
)

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
