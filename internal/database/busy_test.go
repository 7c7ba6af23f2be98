package database

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// hold begins a change that lasts until release is called.
func hold(t *testing.T, d *DB) (release func()) {
	t.Helper()
	begun, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- d.change(t.Context(), ada, areaRules, patience, func(*change) error {
			close(begun)
			<-free
			return errNothing
		})
	}()
	<-begun
	return func() {
		close(free)
		if err := <-done; !errors.Is(err, errNothing) {
			t.Error(err)
		}
	}
}

// TestChange_SaysThatAnotherOneWasInTheWay: while a large import is written, other
// writers hear that, and not that the database is unreachable.
func TestChange_SaysThatAnotherOneWasInTheWay(t *testing.T) {
	t.Parallel() // it waits for deadlines most of the time
	for _, b := range backends {
		for _, who := range []string{"this node", "another node"} {
			t.Run(b.name+"/"+who, func(t *testing.T) {
				dsn := b.dsn(t)
				d := openFor(t, dsn, 200*time.Millisecond)
				holder := d
				if who == "another node" {
					holder = open(t, dsn)
				}
				release := hold(t, holder)
				_, err := d.CreateRule(t.Context(), ada, sample("a"))
				if !errors.Is(err, rules.ErrBusy) || !errors.Is(err, rules.ErrUnavailable) {
					t.Errorf("a rule: %v", err)
				}
				left, leave := context.WithCancel(t.Context())
				leave()
				if _, err := d.CreateRule(left, ada, sample("a")); errors.Is(err, rules.ErrBusy) ||
					!errors.Is(err, context.Canceled) {
					t.Errorf("a caller who left: %v", err)
				}
				if d.dialect == dialectSQLite {
					err := d.CreateSession(t.Context(), access.Session{Token: "t", ExpiresAt: time.Now().Add(time.Hour)})
					if !errors.Is(err, rules.ErrBusy) || !errors.Is(err, rules.ErrUnavailable) {
						t.Errorf("a session: %v", err)
					}
				}
				release()
				mustCreate(t, open(t, dsn), sample("a"))
			})
		}
	}
}

// TestChange_WaitingWritersLeaveRoomForReads: reads come through while more writers
// wait than the pool has connections.
func TestChange_WaitingWritersLeaveRoomForReads(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		release := hold(t, d)
		const writers = 3 * defaultMaxConns
		done := make(chan error, writers)
		for range writers {
			go func() {
				done <- d.change(t.Context(), ada, areaRules, patience, func(*change) error { return errNothing })
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		for range writers {
			if _, err := d.Versions(ctx); err != nil {
				t.Fatal(err)
			}
		}
		release()
		for range writers {
			if err := <-done; err != nil && !errors.Is(err, errNothing) {
				t.Error(err)
			}
		}
	})
}
