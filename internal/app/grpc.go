package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"sluice/api/envoy"
)

// grpcServer serves the gRPC services of package envoy, with its listener.
type grpcServer struct {
	calls     *envoy.Server
	listener  *firstByteListener
	tls       *tls.Config // nil: no TLS
	readiness *readiness
	delay     time.Duration
	timeout   time.Duration
	log       *slog.Logger
	lost      func() time.Duration // of starvation.Meter; nil: not measured
	done      chan struct{}
}

// listenGRPC opens the address and serves calls until close. fatal is called with an error of the listener.
func listenGRPC(ctx context.Context, addr string, g grpcServer, fatal func(error)) (*grpcServer, net.Addr, error) {
	tcp, err := listenTCP(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	if g.listener, err = newFirstByteListener(tcp, idleTimeout, g.tls, nil, false, g.log); err != nil {
		return nil, nil, errors.Join(err, tcp.Close())
	}
	g.done = make(chan struct{})
	go func() {
		defer close(g.done)
		if err := g.calls.Serve(g.listener); err != nil {
			fatal(err)
		}
	}()
	return &g, tcp.Addr(), nil
}

// close drains the server, as httpServer.close does. The node's health is NOT_SERVING at once. After the delay the
// connections that the kernel has queued are accepted, and then every connection is asked to move on (GOAWAY). Calls in
// flight may run until the timeout.
func (g *grpcServer) close(context.Context) error {
	g.readiness.drain()
	g.calls.Unready()
	g.listener.lost.begin(g.lost)
	sleep(g.delay)
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	err := g.listener.handOver(ctx)
	if err = errors.Join(err, g.calls.Close(ctx)); err != nil {
		g.log.Warn("the drain timeout passed; gRPC connections with calls in flight were closed")
	}
	<-g.done
	return nil
}

// sleep waits for a time that nothing cuts short.
func sleep(d time.Duration) {
	if d > 0 {
		wait := time.NewTimer(d)
		defer wait.Stop()
		<-wait.C
	}
}

// listeners are closed together, so that the drain delay and the drain timeout pass once.
type listeners struct {
	closes []func(context.Context) error
}

func (l *listeners) close(ctx context.Context) error {
	errs := make([]error, len(l.closes))
	var wg sync.WaitGroup
	for i, one := range l.closes {
		wg.Go(func() { errs[i] = one(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
