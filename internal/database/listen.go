package database

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/tick"
	"sluice/internal/trouble"
)

// Timing of the listening connection.
const (
	listenProbe    = 10 * time.Second       // silence after which the connection is tried
	listenFirstTry = 100 * time.Millisecond // wait before the first reconnect, then doubled
	listenLastTry  = 5 * time.Second        // and no longer than this
)

// Listen calls fn whenever a node changed rules or tokens, and after every (re)connection, because
// a change may have been missed. It returns immediately. Until ctx ends or the DB is closed it
// keeps a separate connection and replaces it when it is lost. fn runs on the listener's goroutine
// and should only signal another one. SQLite has no notifications, so Listen does nothing there;
// poll Versions.
//
// The error is for a DSN that cannot be parsed; an unreachable server is retried.
func (d *DB) Listen(ctx context.Context, fn func()) error {
	if d.dialect != dialectPostgres {
		return nil
	}
	cfg, err := d.postgresConfig()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.stopped.Err(); err != nil {
		return fmt.Errorf("listen: the database is closed: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	undo := context.AfterFunc(d.stopped, cancel)
	d.listeners.Go(func() {
		defer cancel()
		defer undo()
		d.listenUntilDone(ctx, cfg, fn)
	})
	return nil
}

var notListening = trouble.Declare(trouble.Condition{Code: "rule_changes_polled",
	Advice: "see to the rules database; edits are in force within a second all the same",
	Starts: "listening for rule changes was interrupted; polling continues", Ends: "listening for rule changes again"})

// errListenReplica is why nobody listens on a read replica: Postgres refuses LISTEN there. Polling follows it.
var errListenReplica = errors.New("the rules database is a read replica")

// listenUntilDone reconnects until ctx ends.
func (d *DB) listenUntilDone(ctx context.Context, cfg *pgx.ConnConfig, fn func()) {
	wait := listenFirstTry
	again := func() {
		d.trouble.Clear(notListening, "")
		fn()
	}
	for {
		connected, err := false, errListenReplica
		if !d.Replica() {
			connected, err = d.listenOnce(ctx, cfg, again)
		}
		if ctx.Err() != nil {
			return
		}
		if connected {
			wait = listenFirstTry
		}
		if d.Replica() {
			d.trouble.Forget(notListening, "")
		} else {
			d.trouble.Note(notListening, "", err)
		}
		if !tick.Wait(ctx, wait) {
			return
		}
		wait = min(wait*2, listenLastTry)
	}
}

// listenOnce listens on one connection until it fails. connected reports whether it ever worked.
func (d *DB) listenOnce(ctx context.Context, cfg *pgx.ConnConfig, fn func()) (connected bool, err error) {
	cfg = cfg.Copy()
	if err := d.useCurrentCredentials(ctx, cfg); err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(bye))
	}()
	if err := within(ctx, d.callTimeout, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+channel)
		return err
	}); err != nil {
		return false, err
	}
	fn()
	for {
		err := within(ctx, listenProbe, func(ctx context.Context) error {
			_, err := conn.WaitForNotification(ctx)
			return err
		})
		switch {
		case err == nil:
			fn()
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return true, err
		default: // silence: is anyone still there?
			if err := within(ctx, d.callTimeout, conn.Ping); err != nil {
				return true, err
			}
		}
	}
}

// within runs fn with a deadline.
func within(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx)
}
