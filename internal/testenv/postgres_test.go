package testenv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testenv"
)

// countTables counts the tables of our own in a database.
func countTables(t *testing.T, dsn string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var n int
	const sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// makeTable stands for a migration.
func makeTable(dsn string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "CREATE TABLE made_once (n int)")
	return err
}

func TestPostgres_GivesEachTestAnEmptyDatabase(t *testing.T) {
	a, b := testenv.Postgres(t), testenv.Postgres(t)
	if err := makeTable(a); err != nil {
		t.Fatal(err)
	}
	if got := countTables(t, a); got != 1 {
		t.Errorf("tables in the first database = %d, want 1", got)
	}
	if got := countTables(t, b); got != 0 {
		t.Errorf("tables in the second database = %d, want 0", got)
	}
}

func TestPostgres_DropsTheDatabaseUnderOpenConnections(t *testing.T) {
	var conn *pgx.Conn
	t.Run("leaves a connection open", func(t *testing.T) {
		var err error
		if conn, err = pgx.Connect(t.Context(), testenv.Postgres(t)); err != nil {
			t.Fatal(err)
		}
	})
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection outlived its database")
	}
}

func TestPostgresFrom_PreparesTheTemplateOnce(t *testing.T) {
	prepared := 0
	prepare := func(dsn string) error {
		prepared++
		return makeTable(dsn)
	}
	for range 3 {
		dsn := testenv.PostgresFrom(t, "once", prepare)
		if got := countTables(t, dsn); got != 1 {
			t.Errorf("tables = %d, want 1", got)
		}
	}
	if prepared != 1 {
		t.Errorf("prepared %d times, want 1", prepared)
	}
}

func TestPrivatePostgres_RestartKeepsThePortAndTheData(t *testing.T) {
	s := testenv.PrivatePostgres(t)
	dsn := s.DSN("postgres")
	if err := makeTable(dsn); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := makeTable(dsn); err == nil {
		t.Fatal("a stopped server answered")
	}
	s.Restart()
	if got := countTables(t, dsn); got != 1 {
		t.Errorf("tables after the restart = %d, want 1", got)
	}
}

func TestPrivatePostgres_PauseSilencesOldAndNewConnections(t *testing.T) {
	s := testenv.PrivatePostgres(t)
	dsn := s.DSN("postgres")
	if err := makeTable(dsn); err != nil {
		t.Fatal(err)
	}
	old, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(context.Background()) }()

	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := old.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ping on an old connection: %v, want a timeout", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if conn, err := pgx.Connect(ctx, dsn); err == nil {
		_ = conn.Close(context.Background())
		t.Error("a paused server let somebody in")
	}

	s.Resume()
	if got := countTables(t, dsn); got != 1 {
		t.Errorf("tables after the pause = %d, want 1", got)
	}
	s.Pause() // a paused server stops too
}
