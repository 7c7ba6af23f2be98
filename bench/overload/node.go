package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sluice/bench/process"
)

// bench is what all cases share.
type bench struct {
	dir        string
	program    string // of the node
	seconds    int    // length of each load, 0 for its own
	capacities capacities
	rows       []row
}

// length is how long a case sends checks: its own time unless the flag -seconds sets another.
func (b *bench) length(own time.Duration) time.Duration {
	if b.seconds > 0 {
		return time.Duration(b.seconds) * time.Second
	}
	return own
}

// build builds the node of this tree.
func (b *bench) build(ctx context.Context) error {
	b.program = filepath.Join(b.dir, "sluice")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.program, "./cmd/sluice")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/sluice: %w\n%s", err, out)
	}
	return nil
}

// node is a started node with the servers that it depends on.
type node struct {
	*process.Process
	process.Target
	grpc      string
	redis     *process.Process // nil without
	redisAddr string
	dir       string
}

// onRedis starts a Redis and a node on it. between, if not nil, returns the address that the node connects to in place
// of Redis's own.
func (b *bench) onRedis(ctx context.Context, between func(redis string) (string, error), rules ...string) (*node,
	error) {
	dir, err := os.MkdirTemp(b.dir, "case")
	if err != nil {
		return nil, err
	}
	redis, addr, err := process.StartRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	to := addr
	if between != nil {
		if to, err = between(addr); err != nil {
			redis.Stop()
			return nil, err
		}
	}
	n, err := b.start(ctx, dir, "REDIS_URL=redis://"+to)
	if err != nil {
		redis.Stop()
		return nil, err
	}
	n.redis, n.redisAddr = redis, addr
	if err := n.prepare(ctx, rules); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// embedded starts a node that counts in its own memory.
func (b *bench) embedded(ctx context.Context, rules ...string) (*node, error) {
	dir, err := os.MkdirTemp(b.dir, "case")
	if err != nil {
		return nil, err
	}
	n, err := b.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := n.prepare(ctx, rules); err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

func (b *bench) start(ctx context.Context, dir string, env ...string) (*node, error) {
	addrs, err := process.FreeAddrs(ctx, 2)
	if err != nil {
		return nil, err
	}
	n := &node{Target: process.Target{Addr: addrs[0], DataDir: filepath.Join(dir, "data")}, grpc: addrs[1], dir: dir}
	env = append(env, "SLUICE_LISTEN="+addrs[0], "SLUICE_GRPC_LISTEN="+addrs[1],
		"SLUICE_DATA_DIR="+filepath.Join(dir, "data"), "SLUICE_METRICS_PUBLIC=true")
	if n.Process, err = process.Start(ctx, filepath.Join(dir, "node.log"), env, b.program, "serve"); err != nil {
		return nil, err
	}
	err = process.Until(ctx, n.Process, func() error {
		return n.Expect(ctx, http.MethodGet, "/readyz", "", http.StatusOK)
	})
	if err != nil {
		log, _ := os.ReadFile(n.Log)
		return nil, fmt.Errorf("the node did not become ready: %w\n%s", err, log)
	}
	return n, nil
}

// prepare creates rules and waits until the counter store decides.
func (n *node) prepare(ctx context.Context, rules []string) error {
	for _, r := range rules {
		if err := n.Expect(ctx, http.MethodPost, "/ratelimit/rules", r, http.StatusCreated); err != nil {
			return err
		}
	}
	return process.Until(ctx, n.Process, func() error {
		_, answer, err := n.Ask(ctx, http.MethodPost, "/ratelimit/check", `{"key":"first","limit":1,"window_ms":1000}`)
		if err == nil && !bytes.Contains(answer, []byte(`"degraded":null`)) {
			err = errors.New("the counter store does not decide yet")
		}
		return err
	})
}

func (n *node) stop() {
	n.Stop()
	if n.redis != nil {
		n.redis.Stop()
	}
}

// counters are the counters of the node.
type counters struct{ breaker, overloaded, starved float64 }

func (n *node) counters(ctx context.Context) (c counters, err error) {
	for _, m := range []struct {
		name string
		to   *float64
	}{
		{"sluice_breaker_opened_total", &c.breaker}, {"sluice_overloaded_total", &c.overloaded},
		{"sluice_starved_total", &c.starved},
	} {
		v, failed := n.Metric(ctx, m.name)
		*m.to, err = v, errors.Join(err, failed)
	}
	return c, err
}
