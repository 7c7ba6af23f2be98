package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/process"
)

// requests prepares a ring of HTTP/1.1 requests, so that the client, which shares the CPU with
// the server, uses as little of it as possible.
func requests(to process.Target, sc scenario, keys int) [][]byte {
	addr, lines := to.Addr, sc.lines
	if to.Token != "" {
		lines += "Authorization: Bearer " + to.Token + "\r\n"
	}
	n := max(1, min(keys, 10_000)/max(sc.checks, 1))
	out := make([][]byte, n)
	for i := range out {
		if sc.headers != nil {
			out[i] = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", sc.path, addr, sc.headers(i, keys))
			continue
		}
		body := sc.body(i, keys)
		out[i] = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "+
			"%d\r\n%s\r\n%s", sc.path, addr, len(body), lines, body)
	}
	return out
}

// conn is one keep-alive connection.
type conn struct {
	c net.Conn
	r *bufio.Reader
}

func dial(ctx context.Context, to process.Target) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to.Addr)
	if err != nil {
		return nil, err
	}
	if to.Secure {
		c = tls.Client(c, process.TrustAll)
	}
	return &conn{c: c, r: bufio.NewReader(c)}, nil
}

// do sends one request and reads its answer, which must be a 200.
func (c *conn) do(req []byte) error {
	if err := c.c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.c.Write(req); err != nil {
		return err
	}
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first:
			if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
				return fmt.Errorf("answer %q", strings.TrimSpace(string(line)))
			}
		case len(line) <= 2 && chunked:
			return c.discardChunks()
		case len(line) <= 2:
			_, err := c.r.Discard(length)
			return err
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(strings.TrimSpace(string(line[16:]))); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked")):
			chunked = true
		}
	}
}

// discardChunks reads a chunked body to its end.
func (c *conn) discardChunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := c.r.Discard(int(n) + 2); err != nil || n == 0 {
			return err
		}
	}
}

// connector prepares caller i: send does request n, done ends the caller.
type connector func(ctx context.Context, i int) (send func(n int) error, done func(), err error)

// connections returns callers that have an HTTP connection each.
func connections(to process.Target, reqs [][]byte) connector {
	return func(ctx context.Context, _ int) (func(n int) error, func(), error) {
		c, err := dial(ctx, to)
		if err != nil {
			return nil, nil, err
		}
		stop := context.AfterFunc(ctx, func() { c.c.Close() })
		return func(n int) error { return c.do(reqs[n%len(reqs)]) }, func() { stop(); c.c.Close() }, nil
	}
}

// closedLoop keeps every caller busy for the given time and returns the latency of each request.
func closedLoop(ctx context.Context, to connector, callers int, length time.Duration) ([]time.Duration, error) {
	return loop(ctx, to, callers, func(i int, send func(n int) error) ([]time.Duration, error) {
		var lat []time.Duration
		end := time.Now().Add(length)
		for n := i; ; n += callers {
			start := time.Now()
			if start.After(end) {
				return lat, nil
			}
			if err := send(n); err != nil {
				return nil, err
			}
			lat = append(lat, time.Since(start))
		}
	})
}

// openLoop sends rate requests per second independent of the answers, and measures latency from
// the instant at which a request was due.
func openLoop(ctx context.Context, to connector, callers, rate int, length time.Duration) ([]time.Duration, error) {
	due := make(chan time.Time, callers) // if it is full, requests are late, which latency includes
	paced, cancel := context.WithCancel(ctx)
	defer cancel()
	go pace(paced, due, rate, length)
	lat, err := loop(ctx, to, callers, func(i int, send func(n int) error) ([]time.Duration, error) {
		var lat []time.Duration
		n := i
		for at := range due {
			if err := send(n); err != nil {
				cancel()
				return nil, err
			}
			lat = append(lat, time.Since(at))
			n += callers
		}
		return lat, nil
	})
	slices.Sort(lat)
	return lat, err
}

// pace sends the instants at which requests are due, and closes due at the end. It sleeps in the
// kernel on its own thread, because the runtime's timers can be a millisecond late in an idle
// process.
func pace(ctx context.Context, due chan<- time.Time, rate int, length time.Duration) {
	defer close(due)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it, 50 µs later
	begin := time.Now().Add(10 * time.Millisecond)
	for n := range int(length.Seconds() * float64(rate)) {
		at := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
		if wait := time.Until(at); wait > 0 {
			ts := unix.NsecToTimespec(wait.Nanoseconds())
			_ = unix.Nanosleep(&ts, nil) // after a signal, the request is early by less than a gap
		}
		select {
		case due <- at:
		case <-ctx.Done():
			return
		}
	}
}

func loop(ctx context.Context, to connector, callers int,
	worker func(i int, send func(n int) error) ([]time.Duration, error)) ([]time.Duration, error) {
	return workers(callers, func(i int) ([]time.Duration, error) {
		send, done, err := to(ctx, i)
		if err != nil {
			return nil, err
		}
		defer done()
		return worker(i, send)
	})
}

// workers runs n workers and returns what all of them measured.
func workers(n int, worker func(i int) ([]time.Duration, error)) ([]time.Duration, error) {
	all := make([][]time.Duration, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i], errs[i] = worker(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return slices.Concat(all...), nil
}
