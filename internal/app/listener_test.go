package app

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// serveFirstByte serves with the given limits until the test ends.
func serveFirstByte(t *testing.T, wait, header time.Duration) (addr string, server *http.Server) {
	t.Helper()
	return serveFirstByteTLS(t, wait, header, nil)
}

// serveFirstByteTLS is serveFirstByte with TLS, unless secure is nil.
func serveFirstByteTLS(t *testing.T, wait, header time.Duration, secure *tls.Config) (addr string,
	server *http.Server) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }),
		ReadHeaderTimeout: header, ReadTimeout: 5 * time.Second,
	}
	done := make(chan error)
	p, err := newFirstByteListener(l.(*net.TCPListener), wait, secure, nil, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- server.Serve(p) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String(), server
}

func connect(t *testing.T, addr, first string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, first); err != nil {
		t.Fatal(err)
	}
	return c
}

// ended waits until the server ends the connection without a word.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	b, err := io.ReadAll(c)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("the connection is left open; the server said %q", b)
	}
}

const echoRequest = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"

func TestFirstByteListener_UnusedConnectionOutlivesTheLimitOnHeaders(t *testing.T) {
	addr, _ := serveFirstByte(t, time.Minute, 50*time.Millisecond)
	unused := connect(t, addr, "")
	// A slow one is cut off although it keeps sending; by then, headers that had
	// to arrive in time from the opening of the connection would be late.
	slow := connect(t, addr, "P")
	ended(t, slow)
	for range 2 {
		if _, err := io.WriteString(unused, echoRequest); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(unused), nil)
		if err != nil {
			t.Fatalf("the unused connection is of no use: %v", err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != "hi" || res.StatusCode != http.StatusOK {
			t.Fatalf("answer %d %q, %v", res.StatusCode, body, err)
		}
	}
}

func TestFirstByteListener_TricklingHeadersAreCutOff(t *testing.T) {
	addr, _ := serveFirstByte(t, time.Minute, 50*time.Millisecond)
	c := connect(t, addr, "POST / HTTP/1.1\r\nHost: x\r\n")
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for { // until the server has ended it
			if _, err := io.WriteString(c, "X-A: b\r\n"); err != nil {
				return
			}
		}
	}()
	ended(t, c)
	c.Close()
	<-stop
}

func TestFirstByteListener_SilenceIsBounded(t *testing.T) {
	addr, _ := serveFirstByte(t, 20*time.Millisecond, time.Minute)
	ended(t, connect(t, addr, ""))
}

func TestFirstByteListener_ClosingEndsUnusedConnections(t *testing.T) {
	addr, server := serveFirstByte(t, time.Minute, time.Minute)
	c := connect(t, addr, "")
	other := connect(t, addr, echoRequest) // was accepted after c
	res, err := http.ReadResponse(bufio.NewReader(other), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, c)
}

// What had arrived before a drain checked the connection is read, however late.
func TestTrackedConn_ExpiryLosesNoBytes(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := connect(t, l.Addr().String(), "")
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := &trackedConn{Conn: server, idle: true, grace: time.Second, since: time.Now().Add(-time.Second)}
	if _, err := io.WriteString(client, "GET"); err != nil {
		t.Fatal(err)
	}
	c.expireIdle(c.since.Add(time.Second - 1))
	if c.expired {
		t.Error("a connection gets no grace time")
	}
	c.expireIdle(c.since.Add(time.Second))
	buf := make([]byte, 8)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "GET" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	c.expireIdle(c.since.Add(time.Hour)) // no longer idle
	if c.expired {
		t.Error("a request under way is cut off")
	}
}

// If the process was not run during the last read, its deadline is noticed before the bytes that arrived meanwhile.
func TestTrackedConn_TheLastReadLosesNoBytes(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := connect(t, l.Addr().String(), "")
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := &trackedConn{Conn: server, idle: true, final: true, armed: time.Now().Add(-time.Second)}
	if err := server.SetReadDeadline(c.armed); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without bytes it read %q, %v", buf[:n], err)
	}
	if _, err := io.WriteString(client, "GET"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "GET" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

// A drain of a node that lacked CPU since the drain delay began leaves idle connections open for half a second.
func TestDrain_AStarvedNodeWaitsForFirstBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		lost, after time.Duration
		open        bool
	}{
		"starved":                {time.Second, starvedGrace - 1, true},
		"starved, half a second": {time.Second, starvedGrace, false},
		"lost a tick":            {finalRead - 1, 0, false},
		"at ease":                {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			lost := time.Minute // before the drain
			f := &firstByteListener{stopped: make(chan struct{}), conns: map[*trackedConn]bool{}}
			f.lost.begin(func() time.Duration { return lost })
			lost += tt.lost
			server, client := net.Pipe()
			defer server.Close()
			defer client.Close()
			began := time.Now()
			fresh := &trackedConn{Conn: server, idle: true, grace: newConnGrace, since: began.Add(-time.Hour)}
			f.conns[fresh] = false
			f.drained(began, began.Add(tt.after), func(*trackedConn) bool { return false })
			if fresh.expired == tt.open {
				t.Errorf("the connection is closed: %v", fresh.expired)
			}
		})
	}
}

// What was lost before the drain delay keeps no connection open.
func TestDrain_CountsTheLostTimeFromItsBeginning(t *testing.T) {
	lost := time.Minute
	d, _ := startServerWith(t, http.NotFoundHandler(), httpServer{timeout: time.Minute,
		lost: func() time.Duration { return lost }})
	if err := d.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost += time.Second
	if got := d.listener.lost.since(); got != time.Second {
		t.Errorf("%s were lost since the drain began, want 1s", got)
	}
}

// The loop closes none either.
func TestDrain_TheLoopOfAStarvedNodeWaitsForFirstBytes(t *testing.T) {
	nodes := map[bool]*plainNode{}
	for _, starved := range []bool{true, false} {
		p := startPlain(t, way{loops: true}, time.Minute)
		if p.listener.loop == nil {
			return // only on Linux
		}
		if starved {
			lost := time.Duration(0)
			p.listener.lost.begin(func() time.Duration { return lost })
			lost = time.Second
		}
		hear(t, bufio.NewReader(connect(t, p.addr, plainCheck("quick"))), "quick")
		nodes[starved] = p
	}
	pass := func(starved bool, after time.Duration) int {
		began := time.Now()
		nodes[starved].listener.drained(began, began.Add(after), func(*trackedConn) bool { return true })
		return nodes[starved].listener.loop.Open()
	}
	// The starved node was asked first, so its connection has been idle for longer.
	eventually(t, "the other node closes its connection", func() bool { return pass(false, 0) == 0 })
	if n := pass(true, 0); n != 1 {
		t.Errorf("a starved node has %d connections left, want 1", n)
	}
	eventually(t, "half a second later the starved node closes its own", func() bool {
		return pass(true, starvedGrace) == 0
	})
}

// A connection that is open and says nothing yet gets its grace time in a drain.
func TestDrain_WaitingConnectionMaySpeak(t *testing.T) {
	t.Parallel()
	d, url := startServer(t, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }), 0, time.Minute)
	addr := url[len("http://"):]
	early, silent := connect(t, addr, ""), connect(t, addr, "")
	closed := make(chan error, 1)
	go func() { closed <- d.close(t.Context()) }()
	<-d.listener.draining
	if _, err := io.WriteString(early, echoRequest); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(early), nil)
	if err != nil {
		t.Fatalf("a request that came during the drain got %v", err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("answer %d, close %v", res.StatusCode, res.Close)
	}
	ended(t, silent)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
