package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// RedisServer is a private redis-server on a loopback port. Its data is in memory only, unless the
// arguments change that. Methods are safe for concurrent use; one that fails marks the owning test
// as failed.
type RedisServer struct {
	server
	busPort int // where cluster nodes talk to each other
	args    []string
}

// Redis starts a redis-server for this test alone and stops it at the test's
// end. args are further options in command-line form, such as "--maxmemory",
// "1mb"; they win over the defaults (no persistence, DEBUG allowed).
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	s, err := newRedis(args)
	if err != nil {
		t.Fatal(err)
	}
	s.ownedBy(t)
	return s
}

// ownedBy lets the server stop at the end of a test, and fail it.
func (s *RedisServer) ownedBy(t testing.TB) {
	s.tb = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("redis-server at %s wrote:\n%s", s.Addr, tail(s.logPath()))
		}
		s.report(s.close())
	})
}

var sharedRedis = sync.OnceValues(func() (*RedisServer, error) {
	s, err := newRedis(nil)
	if err == nil {
		atExit(func() { _ = s.close() })
	}
	return s, err
})

// SharedRedis returns the test binary's common redis-server, started on first use and stopped by Main. Nothing empties
// it between tests. Each test uses a separate key prefix, and must not stop, freeze or reconfigure the server.
func SharedRedis(t testing.TB) *RedisServer {
	t.Helper()
	s, err := sharedRedis()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newRedis starts a server on a free port, picking another on a clash.
func newRedis(args []string) (*RedisServer, error) {
	dir, err := os.MkdirTemp("", "sluice-redis-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		port, err := freePort(ctx)
		busPort, busErr := freePort(ctx)
		if err := errors.Join(err, busErr); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		s := &RedisServer{
			server:  server{name: "redis-server", Addr: loopback(port), port: port, dir: dir},
			busPort: busPort, args: args,
		}
		err = s.start(ctx)
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// URL returns the server's address as redis://host:port/0.
func (s *RedisServer) URL() string { return "redis://" + s.Addr + "/0" }

// Command sends one command, such as "PTTL", "key", on a new connection. A reply that is an error, a null or an array
// is returned as an error.
func (s *RedisServer) Command(ctx context.Context, args ...string) (string, error) {
	return command(ctx, s.Addr, args...)
}

// Kill ends the server at once with SIGKILL.
func (s *RedisServer) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(s.end((*process).kill))
}

// Restart stops the server if it still runs and starts it again on the same
// port; without persistence it comes back empty. It returns once the server
// answers.
func (s *RedisServer) Restart() { s.restart(s.start) }

// start launches the process and waits until it answers. The process id in the answer proves that
// no other server has the port. The caller holds mu, or no other goroutine has s.
func (s *RedisServer) start(ctx context.Context) error {
	path, err := findBinary("redis-server", "redis-server")
	if err != nil {
		return err
	}
	args := []string{
		"--port", strconv.Itoa(s.port), "--cluster-port", strconv.Itoa(s.busPort), "--bind", "127.0.0.1", "--dir", s.dir,
		"--daemonize", "no", "--save", "", "--appendonly", "no",
		"--enable-debug-command", "local", "--repl-diskless-sync-delay", "0",
	}
	if err := os.Truncate(s.logPath(), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := start(spec{
		path: path, args: append(args, s.args...), dir: s.dir, logPath: s.logPath(),
		orphan: syscall.SIGKILL, stop: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	err = poll(ctx, p.done, func(ctx context.Context) error {
		info, err := command(ctx, s.Addr, "INFO", "server")
		if isAuthError(err) {
			return nil // the server runs; the arguments set a password
		}
		if err != nil {
			return err
		}
		if got := infoField(info, "process_id"); got != strconv.Itoa(p.pid()) {
			return fmt.Errorf("process %s answers on %s, want %d", got, s.Addr, p.pid())
		}
		return nil
	})
	if err != nil {
		log := p.log()
		if saysPortTaken(log) {
			err = errors.Join(errPortTaken, err)
		}
		return errors.Join(fmt.Errorf("redis-server on %s: %w; it wrote:\n%s", s.Addr, err, log), p.kill())
	}
	s.proc = p
	return nil
}

// close stops the process and removes its files.
func (s *RedisServer) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.end((*process).kill), os.RemoveAll(s.dir))
}

// running reports whether the server was started and not stopped since.
func (s *RedisServer) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil
}

// isAuthError reports whether the error means that the server runs and requires a password.
func isAuthError(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "NOAUTH") || strings.Contains(err.Error(), "NOPERM"))
}
