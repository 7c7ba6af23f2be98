package database

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/testenv"
	"sluice/internal/trouble"
)

// patience is how long a test waits for a signal that must come.
const patience = 20 * time.Second

// calls is a callback that leaves a mark, as Listen asks for.
func calls() (func(), <-chan struct{}) {
	c := make(chan struct{}, 1)
	return func() {
		select {
		case c <- struct{}{}:
		default:
		}
	}, c
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

func TestListen_HearsEveryKindOfChangeOfAnotherNode(t *testing.T) {
	dsn := backends[0].dsn(t)
	here, there := open(t, dsn), open(t, dsn)
	fn, called := calls()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := here.Listen(ctx, fn); err != nil {
		t.Fatal(err)
	}
	await(t, "the first connection", called)

	a := mustCreate(t, there, sample("a"))
	await(t, "a creation", called)
	a.Limit++
	if _, err := there.UpdateRule(t.Context(), ada, a, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "an update", called)
	if err := there.DeleteRule(t.Context(), ada, a.ID, 0); err != nil {
		t.Fatal(err)
	}
	await(t, "a deletion", called)
	_, tok := newToken("ci", access.ScopeCheck)
	if _, err := there.CreateToken(t.Context(), ada, tok); err != nil {
		t.Fatal(err)
	}
	await(t, "a token", called)

	// A change that did not happen is not announced: the next call is for the
	// change after it, whose version is in the database by then.
	if _, err := there.UpdateRule(t.Context(), ada, a, 0); err == nil {
		t.Fatal("updated a deleted rule")
	}
	mustCreate(t, there, sample("b"))
	await(t, "the change after a failed one", called)
	if got := mustVersions(t, here).Rules; got != 4 {
		t.Errorf("called back for version %d, want 4", got)
	}
}

func TestListen_ReconnectsAndCallsAgain(t *testing.T) {
	t.Parallel() // it waits between attempts most of the time
	dsn := backends[0].dsn(t)
	here, there := open(t, dsn), open(t, dsn)
	fn, called := calls()
	if err := here.Listen(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	await(t, "the first connection", called)
	for range 2 {
		cut := `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`
		var n int
		if err := there.write.Raw(cut).Scan(&n).Error; err != nil || n != 1 {
			t.Fatalf("cut %d connections, %v", n, err)
		}
		await(t, "the reconnection", called)
		mustCreate(t, there, sample("a"+time.Duration(mustVersions(t, there).Rules).String()))
		await(t, "a change after it", called)
	}
}

// The first attempts find no server. The log says so once, and once that it is over.
func TestListen_LogsAnInterruptionOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // read after Close
	d, err := Open(t.Context(), Options{DSN: backends[0].dsn(t),
		Trouble: trouble.New(slog.New(slog.NewTextHandler(&log, nil)), time.Now, nil)})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := d.postgresConfig()
	if err != nil {
		t.Fatal(err)
	}
	const refused = 3
	var dials atomic.Int64
	direct := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) <= refused {
			return nil, syscall.ECONNREFUSED
		}
		return direct(ctx, network, addr)
	}
	fn, called := calls()
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { d.listenUntilDone(ctx, cfg, fn) })
	await(t, "the connection", called)
	stop()
	listening.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"listening for rule changes was interrupted", "listening for rule changes again"} {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%d lines say %q:\n%s", n, text, log.String())
		}
	}
}

func TestListen_EndsWithItsContextAndWithClose(t *testing.T) {
	d, err := Open(t.Context(), Options{DSN: backends[0].dsn(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fn, called := calls()
	if err := d.Listen(ctx, fn); err != nil {
		t.Fatal(err)
	}
	await(t, "the first listener", called)
	cancel()
	if err := d.Listen(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	await(t, "the second listener", called)
	if err := d.Close(); err != nil { // waits for both; goleak checks
		t.Fatal(err)
	}
	if err := d.Listen(t.Context(), fn); err == nil {
		t.Error("listening on a closed database")
	}
}

func TestListen_OnSQLiteDoesNothing(t *testing.T) {
	d := open(t, backends[1].dsn(t))
	if err := d.Listen(t.Context(), func() { t.Error("called") }); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, d, sample("a"))
}

func TestListen_WaitsForAServerThatStartsLater(t *testing.T) {
	t.Parallel() // it waits for the server most of the time
	srv := testenv.PrivatePostgres(t)
	d := open(t, srv.DSN("postgres"))
	srv.Stop()
	fn, called := calls()
	if err := d.Listen(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	await(t, "the server", called)
}
