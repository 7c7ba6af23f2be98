package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a private Postgres on a loopback port, without durability (fsync off) and without passwords. It
// runs as an ordinary user, because Postgres refuses root. Methods are safe for concurrent use; a failing method marks
// the owning test as failed.
type PostgresServer struct {
	server
	cred *syscall.Credential
}

// superuser is the one role of a test server.
const superuser = "sluice"

// PrivatePostgres starts a Postgres for this test alone, for tests that stop, freeze or restart it. It takes seconds:
// other tests use Postgres.
func PrivatePostgres(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := newPostgres()
	if err != nil {
		t.Fatal(err)
	}
	s.tb = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("postgres at %s wrote:\n%s", s.Addr, tail(s.logPath()))
		}
		s.report(s.close())
	})
	return s
}

// newPostgres creates a data directory and starts a server on a free port.
func newPostgres() (*PostgresServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, cred, err := ordinaryDir()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{server: server{name: "postgres", dir: dir}, cred: cred}
	template, err := initialised()
	if err == nil {
		err = s.copyData(ctx, template)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for {
		if s.port, err = freePort(ctx); err != nil {
			break
		}
		s.Addr = loopback(s.port)
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// DSN returns the connection string of a database on this server; "postgres"
// always exists.
func (s *PostgresServer) DSN(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Addr, database)
}

// Restart stops the server if it still runs and starts it again on the same
// port with the same data. It returns once the server answers.
func (s *PostgresServer) Restart() { s.restart(s.start) }

// initialised is a server that never runs, with the data of initdb. Every other server starts with
// a copy of this data, which takes a tenth of the time.
var initialised = sync.OnceValues(func() (*PostgresServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, cred, err := ordinaryDir()
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{server: server{name: "postgres", dir: dir}, cred: cred}
	if err := s.initialise(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	atExit(func() { _ = os.RemoveAll(dir) })
	return s, nil
})

// copyData copies the data of a server that does not run.
func (s *PostgresServer) copyData(ctx context.Context, from *PostgresServer) error {
	// cp keeps owners and modes, which Postgres insists on.
	if out, err := exec.CommandContext(ctx, "cp", "-a", from.data(), s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("copy of a data directory: %w %s", err, out)
	}
	return nil
}

// initialise runs initdb.
func (s *PostgresServer) initialise(ctx context.Context) error {
	path, err := findPostgres("initdb")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path,
		"-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "--no-instructions")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w; it wrote:\n%s", err, out)
	}
	return nil
}

// start launches the postmaster and waits until it answers. The answer must name the server's data
// directory, which proves that no other server has the port. The caller holds mu, or no other
// goroutine has s.
func (s *PostgresServer) start(ctx context.Context) error {
	path, err := findPostgres("postgres")
	if err != nil {
		return err
	}
	if err := os.Truncate(s.logPath(), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200",
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
		"shared_buffers=32MB", "dynamic_shared_memory_type=mmap", "logging_collector=off",
	} {
		args = append(args, "-c", setting)
	}
	p, err := start(spec{
		path: path, args: args, dir: s.dir, logPath: s.logPath(), cred: s.cred,
		orphan: syscall.SIGQUIT, stop: syscall.SIGINT,
	})
	if err != nil {
		return err
	}
	err = poll(ctx, p.done, func(ctx context.Context) error {
		var dir string
		err := s.query(ctx, "postgres", func(c *pgx.Conn) error {
			return c.QueryRow(ctx, "SHOW data_directory").Scan(&dir)
		})
		if err == nil && dir != s.data() {
			err = fmt.Errorf("a server with data in %s answers on %s", dir, s.Addr)
		}
		return err
	})
	if err != nil {
		log := p.log()
		if saysPortTaken(log) {
			err = errors.Join(errPortTaken, err)
		}
		return errors.Join(fmt.Errorf("postgres on %s: %w; it wrote:\n%s", s.Addr, err, log), p.terminate())
	}
	s.proc = p
	return nil
}

// query runs use on a new connection to one database.
func (s *PostgresServer) query(ctx context.Context, database string, use func(*pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		return err
	}
	return errors.Join(use(conn), conn.Close(ctx))
}

// close stops the server and removes its files. It never kills outright: the
// postmaster has children and shared memory to take with it.
func (s *PostgresServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.end((*process).terminate), os.RemoveAll(s.dir))
}

func (s *PostgresServer) data() string { return filepath.Join(s.dir, "data") }

// findPostgres finds one of Postgres's programs, which Debian keeps out of PATH.
func findPostgres(name string) (string, error) {
	return findBinary(name, "postgresql", "/usr/lib/postgresql/*/bin/"+name, "/usr/local/opt/postgresql*/bin/"+name)
}

// Copy stops the server while its files are copied, and returns a separate server on the copy. It
// simulates a replica or a backup.
func (s *PostgresServer) Copy(t testing.TB) *PostgresServer {
	t.Helper()
	s.Stop()
	dir, cred, err := ordinaryDir()
	if err != nil {
		t.Fatal(err)
	}
	c := &PostgresServer{server: server{name: "postgres", dir: dir, tb: t}, cred: cred}
	t.Cleanup(func() { c.report(c.close()) })
	if err := c.copyData(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if c.port, err = freePort(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Addr = loopback(c.port)
	c.Restart()
	s.Restart()
	return c
}

// FailOver stops both servers and starts the data of to at the address of s, as if a proxy or a
// host name led to another server now.
func (s *PostgresServer) FailOver(to *PostgresServer) {
	s.Stop()
	to.Stop()
	s.report(errors.Join(os.Rename(s.data(), s.data()+".lost"), os.Rename(to.data(), s.data())))
	s.Restart()
}
