package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server that this command started and will stop by pid.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func build(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, "sluice")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/sluice")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, b)
	}
	return out, nil
}

func start(ctx context.Context, logFile string, env []string, name string, args ...string) (*process, error) {
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w (is it installed? try make deps)", name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the exit status of a server that we stop says nothing
	}()
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// cpu is the processor time the process has used, user and system; 0 for nil.
func (p *process) cpu() time.Duration {
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

// freeAddr is a loopback address whose port is free right now.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func startRedis(ctx context.Context, dir string) (*process, string, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, "", err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	p, err := start(ctx, filepath.Join(dir, "redis.log"), nil, "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return nil, "", err
	}
	err = until(ctx, p, func() error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	return p, "redis://" + addr, err
}

func startSluice(ctx context.Context, binary, data string, env []string) (*process, string, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, "", err
	}
	env = append(env, "SLUICE_LISTEN="+addr, "SLUICE_DATA_DIR="+data)
	log := data + ".log"
	p, err := start(ctx, log, env, binary, "serve")
	if err != nil {
		return nil, "", err
	}
	err = until(ctx, p, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answered %d", res.StatusCode)
		}
		return nil
	})
	if err != nil {
		b, _ := os.ReadFile(log)
		err = fmt.Errorf("sluice did not become ready: %w\n%s", err, b)
	}
	return p, addr, err
}

// until tries ready every 20 ms, for at most 10 s or until the process ends.
func until(ctx context.Context, p *process, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
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
			p.stop()
			return err
		case <-tick.C:
		}
	}
}
