package testenv

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Program is a server that a test starts, such as a gateway. It runs in the foreground and
// listens on a port of the test.
type Program struct {
	// Path is the program. Binary finds one that is installed.
	Path string
	Args []string
	// Env are NAME=value, besides the environment of the test.
	Env []string
	// Dir is the working directory.
	Dir string
	// Addr is where the program listens once it is ready.
	Addr string
}

// Running is a Program that runs. A failing method ends the test.
type Running struct {
	tb   testing.TB
	proc *process
}

// Binary returns the path of an installed program. Without it the test fails and names the
// Debian package.
func Binary(t testing.TB, name, debianPackage string, globs ...string) string {
	t.Helper()
	path, err := findBinary(name, debianPackage, globs...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// FreeAddr returns an address on 127.0.0.1 that nobody listened on a moment ago.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Start runs a program until the test ends. It returns once the program listens.
func Start(t testing.TB, p *Program) *Running {
	t.Helper()
	logs, err := os.MkdirTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	proc, err := start(spec{path: p.Path, args: p.Args, env: p.Env, dir: p.Dir, logPath: filepath.Join(logs, "log"),
		orphan: syscall.SIGKILL, stop: syscall.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	r := &Running{tb: t, proc: proc}
	t.Cleanup(func() {
		if err := proc.terminate(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(p.Path), proc.log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := poll(ctx, proc.done, func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Addr)
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(p.Path), err, proc.log())
	}
	return r
}

// Kill ends the program at once.
func (r *Running) Kill() {
	r.tb.Helper()
	if err := r.proc.kill(); err != nil {
		r.tb.Fatal(err)
	}
}

// Terminate asks the program to end, and waits for it.
func (r *Running) Terminate() {
	r.tb.Helper()
	if err := r.proc.terminate(); err != nil {
		r.tb.Fatal(err)
	}
}

// Pause freezes the program with its children: connections stay open and nothing answers.
func (r *Running) Pause() {
	r.tb.Helper()
	if err := r.proc.pause(); err != nil {
		r.tb.Fatal(err)
	}
}

// Log returns all that the program wrote.
func (r *Running) Log() string {
	r.tb.Helper()
	b, err := os.ReadFile(r.proc.spec.logPath)
	if err != nil {
		r.tb.Fatal(err)
	}
	return string(b)
}
