package process

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"
)

// StartRedis starts a Redis without persistence on a free port.
func StartRedis(ctx context.Context, dir string) (*Process, string, error) {
	addrs, err := FreeAddrs(ctx, 1)
	if err != nil {
		return nil, "", err
	}
	p, err := StartRedisAt(ctx, dir, addrs[0])
	return p, addrs[0], err
}

// StartRedisAt starts a Redis on an address, such as the address of a killed one, and waits until it accepts
// connections.
func StartRedisAt(ctx context.Context, dir, addr string) (*Process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := Start(ctx, filepath.Join(dir, "redis.log"), nil, "redis-server",
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return nil, err
	}
	return p, UntilAccepts(ctx, p, addr)
}

// UntilAccepts waits until a process accepts connections on an address.
func UntilAccepts(ctx context.Context, p *Process, addr string) error {
	return Until(ctx, p, func() error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// FreeAddrs returns n loopback addresses whose ports are free now.
func FreeAddrs(ctx context.Context, n int) (addrs []string, err error) {
	for range n {
		l, lerr := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if lerr != nil {
			return nil, errors.Join(err, lerr)
		}
		defer l.Close() //nolint:gocritic // deferInLoop: held together, so that the ports differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
