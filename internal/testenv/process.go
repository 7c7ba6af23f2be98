package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// spec describes how to run one server process in the foreground.
type spec struct {
	path    string
	args    []string
	env     []string // NAME=value, besides the caller's
	dir     string
	logPath string              // stdout and stderr are appended here
	cred    *syscall.Credential // nil = as the caller
	orphan  syscall.Signal      // sent by the kernel when the test binary dies
	stop    syscall.Signal      // requests a graceful stop
}

// process is one running child. Its methods are safe for concurrent use.
type process struct {
	spec spec
	cmd  *exec.Cmd
	done chan struct{} // closed after the child was reaped
}

// start launches the child. One goroutine owns it from fork to reaping, locked
// to its thread, because the kernel's parent-death signal follows the thread
// that forked, not the process.
func start(s spec) (*process, error) {
	logFile, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// A context without an end: the child is stopped by signal, in order.
	cmd := exec.CommandContext(context.Background(), s.path, s.args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), s.env...)
	cmd.SysProcAttr = childAttr(s.cred, s.orphan)

	p := &process{spec: s, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := errors.Join(cmd.Start(), logFile.Close())
		started <- err
		if cmd.Process != nil {
			_ = cmd.Wait() // the exit status of a killed server has no meaning
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.path, err)
	}
	return p, nil
}

// pid returns the process id of the child.
func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig; a child that has already ended is no error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.pid(), err)
	}
	return nil
}

// terminate asks the child to end, kills it after stopTimeout, and returns when it was reaped. It
// first resumes a paused child, which could not react otherwise.
func (p *process) terminate() error {
	if err := errors.Join(p.resume(), p.signal(p.spec.stop)); err != nil {
		return err
	}
	patience := time.NewTimer(stopTimeout)
	defer patience.Stop()
	select {
	case <-p.done:
		return nil
	case <-patience.C:
		return p.kill()
	}
}

// kill ends the child at once and returns when it was reaped.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// pause freezes the child, then the processes that it started, and returns when all are stopped.
// The child is first, so that it starts no further processes.
func (p *process) pause() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	freeze := func(pid int) error {
		if err := signalPid(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		return poll(ctx, p.done, func(context.Context) error { return standsStill(pid) })
	}
	if err := freeze(p.pid()); err != nil {
		return err
	}
	workers, err := children(p.pid())
	for _, worker := range workers {
		err = errors.Join(err, freeze(worker))
	}
	return err
}

// resume lets a frozen child and its processes continue.
func (p *process) resume() error {
	workers, err := children(p.pid())
	for _, worker := range workers {
		err = errors.Join(err, signalPid(worker, syscall.SIGCONT))
	}
	return errors.Join(err, p.signal(syscall.SIGCONT))
}

// signalPid sends sig to a process, which need not be a child. It is no error if the process has
// ended.
func signalPid(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// log returns the end of the output of the child, at most 4 KiB.
func (p *process) log() string { return tail(p.spec.logPath) }

// tail returns the last 4 KiB of a log file, or a line saying why not.
func tail(path string) string {
	const most = 4096
	b, err := os.ReadFile(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return strings.TrimSpace(string(b))
}
