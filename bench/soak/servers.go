package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// redisServer is a Redis without persistence: killed, it comes back empty.
type redisServer struct {
	addr, dir string
	*process
}

func (r *redisServer) url() string { return "redis://" + r.addr }

func startRedis(ctx context.Context, dir, name string) (*redisServer, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	r := &redisServer{addr: addr, dir: filepath.Join(dir, name)}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	return r, r.start(ctx)
}

func (r *redisServer) start(ctx context.Context) (err error) {
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return err
	}
	r.process, err = start(nil, filepath.Join(r.dir, "log"), nil, "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.dir)
	if err != nil {
		return err
	}
	return until(ctx, r.process, func(ctx context.Context) error { return dialable(ctx, r.addr) })
}

func dialable(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// postgresServer is a Postgres without passwords, in a folder of its own.
type postgresServer struct {
	addr, dir, bin string
	cred           *syscall.Credential
	*process
}

func (p *postgresServer) url() string {
	return "postgres://sluice@" + p.addr + "/postgres?sslmode=disable"
}

func startPostgres(ctx context.Context, dir string) (*postgresServer, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	p := &postgresServer{addr: addr, dir: filepath.Join(dir, "postgres")}
	if p.bin, err = postgresPrograms(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	// Postgres refuses to run as root.
	if os.Geteuid() == 0 {
		if p.cred, err = ordinaryUser(); err != nil {
			return nil, err
		}
		if err := os.Chown(p.dir, int(p.cred.Uid), int(p.cred.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(p.bin, "initdb"), "--pgdata", filepath.Join(p.dir, "data"),
		"--username", "sluice", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	initdb.Dir = p.dir
	if b, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, b)
	}
	return p, p.start(ctx)
}

func (p *postgresServer) start(ctx context.Context) (err error) {
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		return err
	}
	p.process, err = start(p.cred, filepath.Join(filepath.Dir(p.dir), "postgres.log"), []string{"LC_ALL=C"}, filepath.Join(p.bin, "postgres"),
		"-D", filepath.Join(p.dir, "data"), "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "dynamic_shared_memory_type=mmap")
	if err != nil {
		return err
	}
	return until(ctx, p.process, func(ctx context.Context) error { return dialable(ctx, p.addr) })
}

// postgresPrograms finds the folder of Postgres's programs, which Debian keeps
// out of PATH.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("postgres is not installed; try make deps")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

func ordinaryUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err, gidErr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no account postgres or nobody to run Postgres as")
}
