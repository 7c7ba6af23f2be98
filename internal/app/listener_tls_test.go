package app

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/testenv"
)

// secured is an authority, the files of a server's certificate, and what the listener
// makes of them.
type secured struct {
	authority *testenv.Authority
	files     certificate.Files
	server    *tls.Config
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{authority: testenv.NewAuthority(t)}
	s.files.CA = s.authority.File
	s.files.Cert, s.files.Key = s.authority.Issue(t, t.TempDir(), "first.test", time.Now().Add(time.Hour))
	source, err := certificate.Open(s.files, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.server = serverTLS(source)
	return s
}

// shake connects and performs the handshake.
func (s *secured) shake(t *testing.T, addr string) *tls.Conn {
	t.Helper()
	c := s.authority.Client(t, "")
	c.ServerName = "localhost"
	conn := tls.Client(connect(t, addr, ""), c)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// halfHello is the begin of a handshake.
const halfHello = "\x16\x03\x01\x02\x00\x01"

func wantAnswer(t *testing.T, c net.Conn, wantClose bool) {
	t.Helper()
	if _, err := io.WriteString(c, echoRequest); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Close != wantClose {
		t.Errorf("answer %d, close %v", res.StatusCode, res.Close)
	}
}

func TestTLS_UnusedConnectionOutlivesTheLimitOnHeaders(t *testing.T) {
	s := newSecured(t)
	addr, _ := serveFirstByteTLS(t, time.Minute, 50*time.Millisecond, s.server)
	unused := s.shake(t, addr)
	slow := s.shake(t, addr)
	if _, err := io.WriteString(slow, "P"); err != nil {
		t.Fatal(err)
	}
	ended(t, slow) // by now, the headers of unused would be late
	for range 2 {
		wantAnswer(t, unused, false)
	}
}

func TestTLS_SilenceIsBounded(t *testing.T) {
	s := newSecured(t)
	addr, _ := serveFirstByteTLS(t, 20*time.Millisecond, time.Minute, s.server)
	ended(t, s.shake(t, addr))
}

func TestTLS_HandshakeIsBounded(t *testing.T) {
	t.Parallel() // it takes handshakeTimeout
	s := newSecured(t)
	addr, _ := serveFirstByteTLS(t, time.Hour, time.Hour, s.server)
	silent, half := connect(t, addr, ""), connect(t, addr, halfHello)
	ended(t, silent)
	ended(t, half)
}

func TestTLS_RequestWithoutItIsToldSo(t *testing.T) {
	s := newSecured(t)
	addr, _ := serveFirstByteTLS(t, time.Minute, time.Minute, s.server)
	c := connect(t, addr, echoRequest)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "https") {
		t.Errorf("answer %d %s", res.StatusCode, body)
	}
}

func TestTLS_DrainFinishesRequestsAndWaitsForNoHandshake(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	d, url := startServerTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-leave
		}
		_, _ = io.WriteString(w, "ok")
	}), 0, time.Minute, s.server)
	addr := strings.TrimPrefix(url, "http://")
	slow := s.shake(t, addr)
	if _, err := io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	used := s.shake(t, addr)
	wantAnswer(t, used, false)
	silent, half := s.shake(t, addr), connect(t, addr, halfHello)
	early := s.shake(t, addr) // last, because it must speak within its grace time
	closed := make(chan error, 1)
	go func() { closed <- d.close(t.Context()) }()
	<-d.listener.draining
	wantAnswer(t, early, true)
	ended(t, silent)
	ended(t, half)
	ended(t, used)
	close(leave)
	res, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatalf("the request in flight got %v", err)
	}
	res.Body.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestTLS_HandlersSeeTheClientCertificate(t *testing.T) {
	s := newSecured(t)
	d, url := startServerTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.ProtoMajor != 1 {
			t.Errorf("TLS %v, %s", r.TLS, r.Proto)
			return
		}
		for _, chain := range r.TLS.VerifiedChains {
			_, _ = io.WriteString(w, chain[0].Subject.CommonName)
		}
	}), 0, time.Minute, s.server)
	for _, name := range []string{"", "gateway.test"} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: s.authority.Client(t, name), ForceAttemptHTTP2: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https"+strings.TrimPrefix(url, "http"),
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		client.CloseIdleConnections()
		if string(body) != name || res.TLS.NegotiatedProtocol != "http/1.1" {
			t.Errorf("the handler saw %q over %q, want %q over HTTP/1.1", body, res.TLS.NegotiatedProtocol, name)
		}
	}
	only2 := s.authority.Client(t, "")
	only2.ServerName, only2.NextProtos = "localhost", []string{"h2"}
	conn := tls.Client(connect(t, strings.TrimPrefix(url, "http://"), ""), only2)
	if err := conn.HandshakeContext(t.Context()); err == nil {
		t.Error("HTTP/2 was negotiated")
	}
	if err := d.close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTLS_NodeFollowsItsFiles(t *testing.T) {
	t.Parallel()
	s, cfg := newSecured(t), withConsole(t)
	cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = s.files.Cert, s.files.Key, s.files.CA
	n := start(t, cfg)
	transport := &http.Transport{TLSClientConfig: s.authority.Client(t, ""), DisableKeepAlives: true}
	n.url, n.client.Transport = "https"+strings.TrimPrefix(n.url, "http"), transport
	if !n.allowed(plenty) {
		t.Error("a check over TLS is denied")
	}
	metrics := n.text("/metrics")
	for _, want := range []string{"sluice_tls_certificate_expiry_timestamp_seconds ", `sluice_trouble{code="tls_files_unusable"} 0`,
		"sluice_tls_handshake_failures_total 0"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if !strings.Contains(n.out.String(), "sluice is listening on https://127.0.0.1:") ||
		!strings.Contains(n.out.String(), "  https://127.0.0.1:") { // the sign-in link
		t.Errorf("it says %s", n.out)
	}
	signInSecurely(t, n)
	served := func() string {
		conn := s.shake(t, strings.TrimPrefix(n.url, "https://"))
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "first.test" {
		t.Errorf("the certificate is that of %s", got)
	}
	cert, key := s.authority.Issue(t, t.TempDir(), "second.test", time.Now().Add(time.Hour))
	if err := errors.Join(os.Rename(cert, s.files.Cert), os.Rename(key, s.files.Key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new certificate is served", func() bool { return served() == "second.test" })
	if err := os.WriteFile(s.files.Key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the metrics report the broken key", func() bool {
		return strings.Contains(n.text("/metrics"), `sluice_trouble{code="tls_files_unusable"} 1`)
	})
	if got := served(); got != "second.test" {
		t.Errorf("with a broken key, the certificate is that of %s", got)
	}
}

// signInSecurely creates the first account and wants its session cookie to be sent over
// TLS only.
func signInSecurely(t *testing.T, n *node) {
	t.Helper()
	_, token, _ := strings.Cut(n.out.String(), "/console/welcome?token=")
	token, _, _ = strings.Cut(token, "\n")
	p := newPerson(t, n)
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	form := url.Values{"token": {token}, "name": {"grace"}, "password": {"long enough for this"},
		"repeat": {"long enough for this"}}
	res, err := p.client.PostForm(n.url+"/console/welcome", form) //nolint:noctx // the server is the test's own
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	var names []string
	for _, c := range res.Cookies() {
		if names = append(names, c.Name); !c.Secure {
			t.Errorf("the cookie %s is not Secure", c.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"__Host-sluice_known_1", "__Host-sluice_session"}) {
		t.Errorf("status %d, cookies %v", res.StatusCode, names)
	}
	p.client.CheckRedirect = nil
	if status, body := p.get(n.url + "/console"); status != http.StatusOK || !strings.Contains(body, "grace") {
		t.Errorf("signed in: %d", status)
	}
}

func TestTLS_StartNamesTheSettingThatIsNotUsable(t *testing.T) {
	t.Parallel()
	s, cfg := newSecured(t), settings(t)
	cfg.TLSCertFile, cfg.TLSKeyFile = s.files.Cert, filepath.Join(t.TempDir(), "missing.key")
	if _, err := tryStart(t, cfg); err == nil || !strings.Contains(err.Error(), "SLUICE_TLS_KEY_FILE") {
		t.Errorf("start: %v", err)
	}
}

// A gateway may prove itself by a certificate instead of a token.
func TestTLS_CertificateProvesAGateway(t *testing.T) {
	t.Parallel()
	s, cfg := newSecured(t), settings(t)
	cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = s.files.Cert, s.files.Key, s.files.CA
	n := start(t, cfg)
	n.url = "https" + strings.TrimPrefix(n.url, "http")
	ask := func(name string) int {
		transport := &http.Transport{TLSClientConfig: s.authority.Client(t, name), DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/ratelimit/forward/shop", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"192.0.2.1"}}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	n.client.Transport = &http.Transport{TLSClientConfig: s.authority.Client(t, ""), DisableKeepAlives: true}
	status, doc := n.send(http.MethodPost, "/ratelimit/profiles",
		`{"name": "shop", "proof": {"token": false, "certificates": ["gateway.test"]}}`)
	if status != http.StatusCreated {
		t.Fatalf("create: %d %v", status, doc)
	}
	for name, want := range map[string]int{
		"gateway.test": http.StatusOK, "other.test": http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		if got := ask(name); got != want {
			t.Errorf("a gateway with the certificate %q got %d, want %d", name, got, want)
		}
	}
}
