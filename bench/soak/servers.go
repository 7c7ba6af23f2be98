package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"sluice/bench/postgres"
)

// redisServer is a Redis without persistence: after a kill it starts empty.
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

// postgresServer is a Postgres in its own folder.
type postgresServer struct {
	*postgres.Cluster
	log string
	*process
}

func startPostgres(ctx context.Context, dir string) (*postgresServer, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	p := &postgresServer{log: filepath.Join(dir, "postgres.log")}
	if p.Cluster, err = postgres.New(ctx, filepath.Join(dir, "postgres"), addr); err != nil {
		return nil, err
	}
	return p, p.start(ctx)
}

func (p *postgresServer) start(ctx context.Context) (err error) {
	p.process, err = start(p.Cred, p.log, []string{"LC_ALL=C"}, p.Program, p.Args...)
	if err != nil {
		return err
	}
	return until(ctx, p.process, func(ctx context.Context) error { return dialable(ctx, p.Addr) })
}
