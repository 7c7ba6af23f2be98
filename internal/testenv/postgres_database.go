package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) {
	s, err := newPostgres()
	if err == nil {
		atExit(func() { _ = s.close() })
	}
	return s, err
})

// templates remembers which template databases the shared server holds.
var templates struct {
	sync.Mutex
	ready map[string]bool
}

// Postgres returns the connection string of a fresh, empty database on the test
// binary's common Postgres, which starts on first use and stops in Main. The
// database is dropped at the test's end, whoever is still connected.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	return cloneDatabase(t, "template1", nil)
}

// PostgresFrom is Postgres with content: the database is a copy of the template
// of that name, which prepare fills the first time (run the migrations there).
// prepare must close its connections before it returns. A name stands for one
// prepare within a test binary.
func PostgresFrom(t testing.TB, template string, prepare func(dsn string) error) (dsn string) {
	t.Helper()
	return cloneDatabase(t, template, prepare)
}

func cloneDatabase(t testing.TB, template string, prepare func(dsn string) error) string {
	t.Helper()
	s, err := sharedPostgres()
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		template = "template_" + template
		if err := s.prepareTemplate(template, prepare); err != nil {
			t.Fatalf("template database %s: %v", template, err)
		}
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := s.createDatabase(name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	return s.DSN(name)
}

// prepareTemplate builds a template database once.
func (s *PostgresServer) prepareTemplate(name string, prepare func(dsn string) error) error {
	templates.Lock()
	defer templates.Unlock()
	if templates.ready[name] {
		return nil
	}
	if err := s.createDatabase(name, "template1"); err != nil {
		return err
	}
	if err := prepare(s.DSN(name)); err != nil {
		return errors.Join(err, s.exec("DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"))
	}
	if templates.ready == nil {
		templates.ready = make(map[string]bool)
	}
	templates.ready[name] = true
	return nil
}

// createDatabase copies a template. Postgres refuses while anyone is connected
// to the template, and a closed connection lingers for a moment, so that
// refusal alone is tried again. Without fsync, a copy of the files takes a fifth of
// the time of Postgres's default, which writes every block to the log (WAL_LOG).
func (s *PostgresServer) createDatabase(name, template string) error {
	const objectInUse = "55006"
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize())
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var final error
	err := poll(ctx, nil, func(context.Context) error {
		err := s.exec(sql)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == objectInUse {
			return err
		}
		final = err
		return nil
	})
	return errors.Join(err, final)
}

// exec runs one statement on the maintenance database.
func (s *PostgresServer) exec(sql string) error {
	ctx := context.Background()
	return s.query(ctx, "postgres", func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
}
