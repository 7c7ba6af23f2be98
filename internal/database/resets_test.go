package database

import (
	"context"
	"errors"
	"testing"

	"sluice/internal/audit"
	"sluice/rules"
)

func TestNoteReset_IsInTheAuditLogOnlyIfItHappened(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := mustCreate(t, d, sample("a"))
		count := func() (n int, details string) {
			list, err := d.ListAudit(ctx, audit.Query{SubjectKind: subjectRule, SubjectID: r.ID})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.Action == actionReset && e.Actor == ada && e.SubjectName == "a" {
					n, details = n+1, string(e.Details)
				}
			}
			return n, details
		}
		done := 0
		reset := func(context.Context) error { done++; return nil }
		if err := d.NoteReset(ctx, ada, r.ID, "user:42", "", reset); err != nil || done != 1 {
			t.Fatalf("%v, reset %d times", err, done)
		}
		if n, details := count(); n != 1 || details != `{"key":"user:42"}` && details != `{"key": "user:42"}` {
			t.Errorf("%d entries, %s", n, details)
		}
		broken := errors.New("the counters are away")
		if err := d.NoteReset(ctx, ada, r.ID, "user:42", "", func(context.Context) error { return broken }); !errors.Is(err,
			broken) {
			t.Errorf("a failed reset: %v", err)
		}
		if n, _ := count(); n != 1 {
			t.Error("a reset that failed is in the log")
		}
		if err := d.NoteReset(ctx, ada, r.ID+9, "user:42", "", reset); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("no such rule: %v", err)
		}
		if err := d.NoteReset(ctx, rules.Actor{}, r.ID, "user:42", "", reset); !errors.Is(err, ErrNoActor) {
			t.Errorf("nobody: %v", err)
		}
		breakAudit(t, d)
		if err := d.NoteReset(ctx, ada, r.ID, "user:42", "", reset); err == nil || done != 1 {
			t.Errorf("without its entry: %v, reset %d times", err, done)
		}
	})
}
