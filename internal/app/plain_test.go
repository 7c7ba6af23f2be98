package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/plain"
	"sluice/api/reply"
	"sluice/internal/access"
)

// plainNode is a server whose checks a test answers.
type plainNode struct {
	*httpServer
	addr   string
	checks chan string // bodies of the checks under way
	finish chan string // what they are answered with
	drain  func() error
	left   chan error // why the context of a check ended
	counts sync.Map   // int64 by what was counted
}

// count is how often it happened.
func (p *plainNode) count(what string) int64 {
	n, _ := p.counts.LoadOrStore(what, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

func (p *plainNode) add(what string) {
	n, _ := p.counts.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// way is how plain checks are read.
type way struct {
	secure *tls.Config
	loops  bool
}

// inTurn are the ways without TLS.
var inTurn = map[string]way{"TCP": {}, "loop": {loops: true}}

// eachWay runs a test with a server of each way.
func eachWay(t *testing.T, ways map[string]way, write time.Duration, test func(*testing.T, *plainNode)) {
	t.Helper()
	for name, w := range ways {
		t.Run(name, func(t *testing.T) { test(t, startPlain(t, w, write)) })
	}
}

// dial connects to the node, as the way demands.
func (w way) dial(t *testing.T, s *secured, p *plainNode) (conn net.Conn, tcp *net.TCPConn) {
	t.Helper()
	conn = connect(t, p.addr, "")
	tcp = conn.(*net.TCPConn)
	if w.secure != nil {
		conf := s.authority.Client(t, "")
		conf.ServerName = "localhost"
		conn = tls.Client(conn, conf)
	}
	return conn, tcp
}

// check answers a check as its body says.
func (p *plainNode) check(ctx context.Context, _ access.Call, _ net.Addr, _, body, dst []byte) ([]byte,
	*reply.Problem) {
	switch string(body) {
	case "bug":
		panic("a bug")
	case "quick":
		return append(dst, body...), nil
	case "large":
		return append(dst, make([]byte, 64<<20)...), nil
	}
	p.checks <- string(body)
	select {
	case answer := <-p.finish:
		return append(dst, answer...), nil
	case <-ctx.Done():
		p.left <- ctx.Err()
		return append(dst, "left"...), nil
	}
}

// checkAll answers checks one after the other. The context of one ends when its client has left.
func (p *plainNode) checkAll(ctx context.Context, asks []plain.Ask) {
	for i := range asks {
		p.ask(ctx, &asks[i])
	}
}

func (p *plainNode) ask(ctx context.Context, a *plain.Ask) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if gone := a.Gone; string(a.Body) != "quick" {
		go func() {
			for ctx.Err() == nil {
				if gone.Load() {
					cancel()
				}
				runtime.Gosched()
			}
		}()
	}
	a.Out, a.Problem = p.check(ctx, a.Call, a.Client, a.Traceparent, a.Body, a.Out)
}

// startPlain starts a server with plain checks. Other requests are answered with "net/http" and their body.
func startPlain(t *testing.T, w way, write time.Duration) *plainNode {
	t.Helper()
	p := &plainNode{checks: make(chan string), finish: make(chan string), left: make(chan error, 1)}
	ready := new(readiness) // a loop asks it before this test has the server
	checks, err := plain.New(plain.Deps{
		Check: p.check, CheckAll: p.checkAll, MaxBody: 1 << 16, Idle: time.Minute, Write: write,
		Draining: ready.draining.Load,
		Checked:  func() { p.add("checks") }, HandedOver: p.add, Panicked: func() { p.add("panics") },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { checks.Run(ctx) })
	d, url := startServerWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprintf(w, "net/http %s", body)
	}), httpServer{tls: w.secure, timeout: time.Minute, plain: checks, loops: w.loops, readiness: ready})
	p.httpServer, p.addr = d, strings.TrimPrefix(url, "http://")
	p.drain = sync.OnceValue(func() error { return d.close(context.Background()) })
	t.Cleanup(func() {
		if err := p.drain(); err != nil {
			t.Error(err)
		}
		stop()
		watch.Wait()
	})
	return p
}

// ways are all ways.
func (s *secured) ways() map[string]way {
	return map[string]way{"TCP": {}, "TLS": {secure: s.server}, "loop": {loops: true}}
}

// open is how many connections the node has.
func (p *plainNode) open() int {
	n := 0
	if p.listener.loop != nil {
		n = p.listener.loop.Open()
	}
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	return n + len(p.listener.conns)
}

// plainCheck is a plain request.
func plainCheck(body string) string {
	return fmt.Sprintf("POST /ratelimit/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"+
		"\r\n\r\n%s", len(body), body)
}

// say writes to a connection.
func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear wants the body of the next response.
func hear(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatalf("%v; want %s", err, want)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || string(body) != want {
		t.Fatalf("got %d %q %v, want %s", res.StatusCode, body, err, want)
	}
}

func TestPlain_AnswersInOrder(t *testing.T) {
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		c := connect(t, p.addr, plainCheck("one")+plainCheck("two")+plainCheck("three"))
		from := bufio.NewReader(c)
		for _, want := range []string{"one", "two", "three"} {
			if got := <-p.checks; got != want {
				t.Fatalf("%s is decided, want %s", got, want)
			}
			p.finish <- want
			hear(t, from, want)
		}
		say(t, c, "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"+plainCheck("four"))
		hear(t, from, "net/http hi")
		hear(t, from, "net/http four") // for good
		if p.count("checks") != 3 || p.count("other_request") != 1 {
			t.Errorf("%d checks, %d other requests", p.count("checks"), p.count("other_request"))
		}
	})
}

// A request that arrives slowly is net/http's, with the limits of net/http.
func TestPlain_SlowClientsAreNetHTTPs(t *testing.T) {
	t.Parallel()
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		request := plainCheck("quick")
		for _, at := range []int{1, 4, 40, strings.Index(request, "\r\n\r\n") + 4, len(request) - 1} {
			for used, before := range []string{"", plainCheck("quick")} {
				slow := p.count("slow")
				c := connect(t, p.addr, before+request[:at])
				from := bufio.NewReader(c)
				if used == 1 {
					hear(t, from, "quick")
				}
				if used == 1 && at < 4 { // net/http too waits for four bytes
					say(t, c, request[at:])
					hear(t, from, "quick")
					continue
				}
				eventually(t, "net/http has it", func() bool { return p.count("slow") > slow })
				say(t, c, request[at:])
				hear(t, from, "net/http quick")
			}
		}
	})
}

func TestPlain_ClientsEndInEveryState(t *testing.T) {
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		request := plainCheck("quick")
		for _, reset := range []bool{false, true} {
			for _, before := range []string{"", plainCheck("quick"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
				for at := range len(request) + 1 {
					c := connect(t, p.addr, before+request[:at])
					tcp := c.(*net.TCPConn)
					if reset {
						_ = tcp.SetLinger(0)
					} else {
						_ = tcp.CloseWrite()
						answers, err := io.ReadAll(c)
						if err != nil || at == len(request) && !bytes.HasSuffix(answers, []byte("quick")) {
							t.Fatalf("%q, then closed: %q, %v", before+request[:at], answers, err)
						}
					}
					_ = c.Close()
				}
			}
		}
		eventually(t, "all connections are closed", func() bool {
			return p.open() == 0
		})
		if p.count("panics") != 0 {
			t.Errorf("%d panics", p.count("panics"))
		}
	})
}

func TestPlain_NoticesThatTheClientLeft(t *testing.T) {
	s := newSecured(t)
	for name, w := range s.ways() {
		for _, half := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " half-closed ", half), func(t *testing.T) {
				p := startPlain(t, w, time.Minute)
				c, tcp := w.dial(t, s, p)
				say(t, c, plainCheck("slow"))
				<-p.checks
				if half {
					_ = tcp.CloseWrite()
				} else {
					_ = c.Close()
				}
				if err := <-p.left; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
	}
}

// A client that has sent more has not left: all of it is answered.
func TestPlain_PipelineOfAHalfClosedClientIsAnswered(t *testing.T) {
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		c := connect(t, p.addr, plainCheck("one")+plainCheck("two"))
		_ = c.(*net.TCPConn).CloseWrite()
		<-p.checks
		p.finish <- "one"
		from := bufio.NewReader(c)
		hear(t, from, "one")
		if got := <-p.checks; got != "two" {
			t.Fatal(got)
		}
		<-p.left // nothing follows the second one
		hear(t, from, "left")
	})
}

func TestPlain_AWriteThatHangsIsCutOff(t *testing.T) {
	eachWay(t, inTurn, 20*time.Millisecond, func(t *testing.T, p *plainNode) {
		c := connect(t, p.addr, plainCheck("large"))
		eventually(t, "the connection is closed", func() bool {
			return p.count("checks") == 1 && p.open() == 0
		})
		ended(t, c)
	})
}

func TestPlain_APanicEndsItsConnectionOnly(t *testing.T) {
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		other := connect(t, p.addr, plainCheck("quick"))
		from := bufio.NewReader(other)
		hear(t, from, "quick")
		ended(t, connect(t, p.addr, plainCheck("bug")))
		say(t, other, plainCheck("quick"))
		hear(t, from, "quick")
		if p.count("panics") != 1 {
			t.Errorf("%d panics", p.count("panics"))
		}
	})
}

func TestPlain_ReadsChecksWithTheLoopAndWithout(t *testing.T) {
	t.Parallel()
	for _, loop := range []string{"on", "off"} {
		cfg := settings(t)
		cfg.Loop = loop
		n := start(t, cfg)
		if !n.allowed(plenty) {
			t.Errorf("%s: denied", loop)
		}
		const want = `sluice_http_checks_total{reader="plain"} 1`
		if metrics := n.text("/metrics"); !strings.Contains(metrics, want) {
			t.Errorf("%s: the metrics have no %s", loop, want)
		}
	}
}

// A deadline that moves on is set again when an earlier one has passed, and no sooner.
func TestTrackedConn_MovesItsDeadline(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	c := &trackedConn{Conn: server}
	now := time.Now()
	for _, d := range []time.Duration{10 * time.Millisecond, time.Hour} {
		if err := c.SetReadDeadline(now.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.armed; !got.Equal(now.Add(10 * time.Millisecond)) {
		t.Errorf("armed for %v", got.Sub(now))
	}
	read := make(chan string)
	go func() {
		b := make([]byte, 8)
		n, err := c.Read(b)
		read <- fmt.Sprint(string(b[:n]), err)
	}()
	eventually(t, "the later deadline is armed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.armed.Equal(now.Add(time.Hour))
	})
	if _, err := io.WriteString(client, "GET"); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "GET<nil>" {
		t.Error(got)
	}
	if err := c.SetReadDeadline(now); err != nil { // an earlier one counts at once
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("no deadline")
	}
}

// A client that resets its connection has left, also if it had sent more requests.
func TestPlain_NoticesAResetOfAPipeline(t *testing.T) {
	s := newSecured(t)
	for name, w := range s.ways() {
		t.Run(name, func(t *testing.T) {
			p := startPlain(t, w, time.Minute)
			c, tcp := w.dial(t, s, p)
			say(t, c, plainCheck("slow")+plainCheck("slow"))
			<-p.checks
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
			if err := <-p.left; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
