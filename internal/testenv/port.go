package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Ports come from below the range that Linux hands to outgoing connections
// (32768 and up), so that a server can restart on its port without finding a
// client's connection there.
const (
	firstPort = 20000
	portCount = 12000
)

// errPortTaken means that the server could not bind its port and must use another.
var errPortTaken = errors.New("port taken")

// given are the ports that were handed out, so that none is handed out again
// before its server listens.
var given sync.Map

// freePort returns a loopback TCP port that nobody listened on a moment ago, each
// at most once. Another process may take it before the caller does: callers retry
// on errPortTaken.
func freePort(ctx context.Context) (int, error) {
	var lastErr error
	for range 100 {
		port := firstPort + rand.IntN(portCount)
		if _, before := given.LoadOrStore(port, true); before {
			continue
		}
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", loopback(port))
		if err != nil {
			lastErr = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free loopback port in 100 attempts: %w", cmp.Or(lastErr, errPortTaken))
}

// loopback returns the address of a port on 127.0.0.1.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// saysPortTaken reports whether a server's log contains a failed bind.
func saysPortTaken(log string) bool {
	return strings.Contains(log, "Address already in use")
}
