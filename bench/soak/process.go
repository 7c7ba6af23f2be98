package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a server that this command started and will stop by its id.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	// ending is set before the process is killed or asked to end, killed before it is killed.
	// Failures after that have a reason.
	ending, killed atomic.Bool
}

func build(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, "sluice")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/sluice")
	cmd.Dir = ".." // the product's own module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, b)
	}
	return out, nil
}

// start runs a program and appends its output to the log file. The goroutine that starts it keeps
// its thread, because the kernel kills the child when that thread ends.
func start(cred *syscall.Credential, logFile string, env []string, name string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), name, args...) // stopped by signal, in order
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: cred}
	p := &process{cmd: cmd, log: logFile, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := errors.Join(cmd.Start(), log.Close())
		started <- err
		if cmd.Process != nil {
			_ = cmd.Wait() // the exit status of a stopped server has no meaning
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w (is it installed? try make deps)", name, err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends it at once.
func (p *process) kill() {
	p.ending.Store(true)
	p.killed.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.done
}

// end asks the process to end and waits. After 20 s it kills it and returns an error.
func (p *process) end(s syscall.Signal) error {
	p.ending.Store(true)
	p.signal(syscall.SIGCONT)
	p.signal(s)
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		p.kill()
		return fmt.Errorf("%s did not end when asked to", filepath.Base(p.cmd.Path))
	}
}

// tail returns the end of its output.
func (p *process) tail() string {
	b, _ := os.ReadFile(p.log)
	return string(b[max(0, len(b)-4096):])
}

// until tries ready every 10 ms, for at most 30 s or until the process ends.
func until(ctx context.Context, p *process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", filepath.Base(p.cmd.Path), err, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w\n%s", filepath.Base(p.cmd.Path), err, p.tail())
		case <-tick.C:
		}
	}
}

// freeAddr returns a loopback address whose port is free now and below the ports of outgoing connections, so that a
// server can restart on it.
func freeAddr(ctx context.Context) (string, error) {
	var last error
	for port := 20000 + int(time.Now().UnixNano()%11000); port < 32500; port++ {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			last = err
			continue
		}
		return addr, l.Close()
	}
	return "", fmt.Errorf("no free port: %w", last)
}

// wait sleeps, or less if ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
