package app

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules/match"
)

// startServer starts a server for h that is ready.
func startServer(t *testing.T, h http.Handler, delay, timeout time.Duration) (*httpServer, string) {
	t.Helper()
	return startServerTLS(t, h, delay, timeout, nil)
}

// startServerTLS is startServer with TLS, unless secure is nil.
func startServerTLS(t *testing.T, h http.Handler, delay, timeout time.Duration, secure *tls.Config) (*httpServer,
	string) {
	t.Helper()
	return startServerWith(t, h, httpServer{tls: secure, delay: delay, timeout: timeout})
}

// startServerWith is startServer with other parts.
func startServerWith(t *testing.T, h http.Handler, d httpServer) (*httpServer, string) {
	t.Helper()
	sets, keyring := &match.Current{}, &access.Current{}
	set, err := match.Compile(nil, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sets.Store(set)
	keyring.Store(access.NewKeyring(nil))
	if d.readiness == nil {
		d.readiness = new(readiness)
	}
	d.readiness.sets, d.readiness.access = sets, keyring
	d.log, d.now = slog.New(slog.DiscardHandler), time.Now
	server, addr, err := listen(t.Context(), "127.0.0.1:0", h, d, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return server, "http://" + addr.String()
}

type fetched struct {
	status int
	close  bool
	body   string
	err    error
}

func get(ctx context.Context, url string) fetched {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fetched{err: err}
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return fetched{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return fetched{status: res.StatusCode, close: res.Close, body: string(body), err: err}
}

func TestDrain_RequestInFlightFinishes(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	d, url := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "decided")
	}), 0, time.Minute)
	answer := make(chan fetched, 1)
	go func() { answer <- get(t.Context(), url) }()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- d.close(t.Context()) }()
	eventually(t, "not ready", func() bool { return d.readiness.ready() != nil })
	eventually(t, "no new connections", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", url[len("http://"):])
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(leave)
	if got := <-answer; got.err != nil || got.body != "decided" {
		t.Errorf("the request in flight got %+v", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A request may be read together with the one before it, so that nothing is read
// from the connection after that one's answer.
func TestDrain_PipelinedRequestIsNoSilence(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	d, url := startServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
	}), 0, time.Minute)
	c := connect(t, url[len("http://"):], "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	d.listener.mu.Lock()
	for c := range d.listener.conns {
		c.expireIdle(time.Now().Add(time.Hour))
		if c.expired {
			t.Error("a drain cuts off a request under way")
		}
	}
	d.listener.mu.Unlock()
	close(leave)
	_ = c.Close()
	if err := d.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDrain_DelayStillServesAndSendsClientsAway(t *testing.T) {
	d, url := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}), time.Hour, time.Minute)
	d.readiness.drain()
	if got := get(t.Context(), url); got.err != nil || got.status != http.StatusOK || !got.close {
		t.Errorf("got %+v, want 200 and Connection: close", got)
	}
	d.delay = 0
	if err := d.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDrain_DeadlineCutsWhatHangs(t *testing.T) {
	entered := make(chan struct{})
	d, url := startServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done() // hangs until the connection is cut
	}), 0, time.Millisecond)
	answer := make(chan fetched, 1)
	go func() { answer <- get(t.Context(), url) }()
	<-entered
	if err := d.close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-answer; got.err == nil {
		t.Errorf("a request that hangs got %+v", got)
	}
}

func TestHandler_ServesAnIndex(t *testing.T) {
	t.Parallel()
	n := standing(t)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if status, _ := n.send(method, "/", ""); status != http.StatusOK {
			t.Errorf("%s / answered %d", method, status)
		}
	}
	if status, _ := n.send(http.MethodGet, "/nowhere", ""); status != http.StatusNotFound {
		t.Errorf("an unknown path answered %d", status)
	}
}

func TestServe_HandlersCannotOutliveTheirLimits(t *testing.T) {
	d, _ := startServer(t, http.NotFoundHandler(), 0, time.Second)
	defer func() {
		if err := d.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s := d.server
	if s.ReadHeaderTimeout != 2*time.Second || s.ReadTimeout != 5*time.Second || s.WriteTimeout != 5*time.Second ||
		s.IdleTimeout != time.Minute || s.MaxHeaderBytes != 16<<10 {
		t.Errorf("server limits %+v", s)
	}
	rec := httptest.NewRecorder()
	d.server.Handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if rec.Header().Get("Connection") != "" {
		t.Error("connections are closed while not draining")
	}
}

// deadlines records what a handler asks of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestServe_FilesOfRulesGetMoreTime(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	h := (&httpServer{readiness: &readiness{}, now: func() time.Time { return at }}).wrap(http.NotFoundHandler())
	for path, want := range map[string]time.Time{
		"/ratelimit/rules/import": at.Add(fileTimeout), "/ratelimit/rules/export": at.Add(fileTimeout),
		"/ratelimit/check": {},
	} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		if !d.read.Equal(want) || !d.write.Equal(want) {
			t.Errorf("%s: read until %v, write until %v; want %v", path, d.read, d.write, want)
		}
	}
}
