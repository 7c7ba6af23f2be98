package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testenv"
)

// freshConnections asks processes to end while each request comes over a
// connection of its own. SLUICE_TEST_FRESH is how many requests there are for
// each process, to measure with more.
func freshConnections(t *testing.T, bin string) {
	requests := int64(1000)
	if n, err := strconv.ParseInt(os.Getenv("SLUICE_TEST_FRESH"), 10, 64); err == nil {
		requests = n
	}
	authority := testenv.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir(), "server", time.Now().Add(time.Hour))
	for name, env := range map[string][]string{
		"without a drain delay": {"SLUICE_DRAIN_DELAY=0s"},
		"with one":              {"SLUICE_DRAIN_DELAY=300ms"},
		"with TLS":              {"SLUICE_TLS_CERT_FILE=" + cert, "SLUICE_TLS_KEY_FILE=" + key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := spawn(t, bin, "", env...)
			s := newStream(strings.TrimPrefix(c.url, "http://"))
			if name == "with TLS" {
				s.secure = authority.Client(t, "")
				s.secure.ServerName = "localhost"
			}
			s.run(t, 8)
			eventually(t, "requests are served", func() bool { return s.answered.Load() >= requests })
			if err := c.end(); err != nil {
				t.Errorf("asked to end, it ended with %v", err)
			}
			s.wait() // until a connection is refused
			if len(s.lost) != 0 {
				t.Errorf("%d of %d requests were lost: %v", len(s.lost), s.answered.Load(), s.lost[:min(3, len(s.lost))])
			}
			t.Logf("%d requests answered, %d lost, %d connections refused, %.0f a second", s.answered.Load(), len(s.lost),
				s.refused.Load(),
				float64(s.answered.Load())/time.Since(s.began).Seconds())
		})
	}
}

// stream is requests over fresh connections.
type stream struct {
	addr              string
	secure            *tls.Config // nil: no TLS
	began             time.Time
	answered, refused atomic.Int64
	wg                sync.WaitGroup
	mu                sync.Mutex
	lost              []string // read after wait
}

func newStream(addr string) *stream { return &stream{addr: addr, began: time.Now()} }

func (s *stream) wait() { s.wg.Wait() }

// run starts that many workers. Each ends when a connection is refused.
func (s *stream) run(t *testing.T, workers int) {
	t.Helper()
	for range workers {
		s.wg.Go(func() {
			for s.one(t.Context()) {
			}
		})
	}
	t.Cleanup(s.wait)
}

// one makes a request, and reports whether the address still takes connections.
// A request is lost if it was sent on an established connection and got no
// answer.
func (s *stream) one(ctx context.Context) bool {
	const body = `{"key":"fresh","limit":1000000,"window_ms":3600000}`
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		if !errors.Is(err, syscall.ECONNREFUSED) {
			s.lose(fmt.Sprintf("connect: %v", err))
		}
		s.refused.Add(1)
		return false
	}
	defer conn.Close()
	if s.secure != nil {
		conn = tls.Client(conn, s.secure)
	}
	_, err = fmt.Fprintf(conn, "POST /ratelimit/check HTTP/1.1\r\nHost: %s\r\nContent-Type: "+
		"application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		s.addr, len(body), body)
	if err != nil {
		s.lose(fmt.Sprintf("send: %v", err)) // it was established, so whatever was sent counts
		return true
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		s.lose(fmt.Sprintf("read: %v %.40q", err, answer))
		return true
	}
	s.answered.Add(1)
	return true
}

func (s *stream) lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, why)
}
