// Package process starts the servers that the programs of bench measure, as processes on free ports of loopback, and
// asks them over HTTP.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a server that this command started and will stop by pid.
type Process struct {
	cmd  *exec.Cmd
	Log  string // file with its output
	done chan struct{}
}

// Start runs a program, with its output in logFile.
func Start(ctx context.Context, logFile string, env []string, name string, args ...string) (*Process, error) {
	return StartAs(ctx, nil, logFile, env, name, args...)
}

// StartAs starts a program under another account; nil is this one's.
func StartAs(ctx context.Context, cred *syscall.Credential, logFile string, env []string, name string,
	args ...string) (*Process, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: cred}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (is it installed? try make deps)", name, err)
	}
	p := &Process{cmd: cmd, Log: logFile, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit status of a stopped server has no meaning
	}()
	return p, nil
}

// Stop asks the process to end and waits for it.
func (p *Process) Stop() { p.End(syscall.SIGTERM) }

// Signal sends a signal. A process that has ended already ignores it.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// End sends a signal and waits for the end. It kills a process that does not end within 10 s.
func (p *Process) End(sig syscall.Signal) {
	p.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// CPU is the processor time the process has used, user and system; 0 for nil.
func (p *Process) CPU() time.Duration {
	if p == nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// Fields 14 and 15, counted after the parenthesised command name.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	const ticksPerSecond = 100 // USER_HZ on Linux
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// Resident is the memory of the process that is not swapped out, in bytes; 0 if it
// has ended.
func (p *Process) Resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Until tries ready every 20 ms, for at most 20 s or until the process ends.
func Until(ctx context.Context, p *Process, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errors.Join(errors.New("the process ended"), err)
		case <-ctx.Done():
			p.Stop()
			return err
		case <-tick.C:
		}
	}
}
