package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Replica starts a streaming replica of the server on another port, with pg_basebackup. The replica answers reads once
// Replica returns, and lags a little.
func (s *PostgresServer) Replica(t testing.TB) *PostgresServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	dir, cred, err := ordinaryDir()
	if err != nil {
		t.Fatal(err)
	}
	r := &PostgresServer{server: server{name: "postgres", dir: dir, tb: t}, cred: cred}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the replica at %s wrote:\n%s", r.Addr, tail(r.logPath()))
		}
		r.report(r.close())
	})
	if err := r.baseBackup(ctx, s); err != nil {
		t.Fatal(err)
	}
	for {
		if r.port, err = freePort(ctx); err != nil {
			t.Fatal(err)
		}
		r.Addr = loopback(r.port)
		if err = r.start(ctx); err == nil {
			return r
		}
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// Promote makes a replica a primary. It returns once the server accepts writes.
func (s *PostgresServer) Promote() { s.report(s.exec("SELECT pg_promote(true, 60)")) }

// Log returns the end of the log of the server since its start.
func (s *PostgresServer) Log() string { return tail(s.logPath()) }

// Follow makes the server a replica of primary. The server keeps its address, and loses data that primary does not
// contain.
func (s *PostgresServer) Follow(primary *PostgresServer) {
	s.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := os.Rename(s.data(), s.data()+".lost")
	if err == nil {
		err = s.baseBackup(ctx, primary)
	}
	s.report(err)
	s.Restart()
}

// baseBackup copies the data of a running server, to be a replica of it.
func (s *PostgresServer) baseBackup(ctx context.Context, from *PostgresServer) error {
	path, err := findPostgres("pg_basebackup")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "-D", s.data(), "-d", from.DSN("postgres"), "-R", "-X", "stream", "-c", "fast",
		"--no-sync")
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w; it wrote:\n%s", err, out)
	}
	return nil
}
