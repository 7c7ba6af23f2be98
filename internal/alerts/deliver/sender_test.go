package deliver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"sluice/internal/alerts"
	"sluice/rules/field"
	"sluice/rules/match"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newGuard is a guard that lets through to the given hosts and networks.
func newGuard(t *testing.T, allow ...string) *Guard {
	t.Helper()
	allowed, err := alerts.ParseAllowed(allow)
	if err != nil {
		t.Fatal(err)
	}
	return NewGuard(allowed)
}

// newSender is a sender that may reach the given hosts and networks.
func newSender(t *testing.T, allow ...string) *Sender {
	t.Helper()
	return NewSender(SenderOptions{Guard: newGuard(t, allow...), Now: time.Now, Version: "test"})
}

func testMessage(text string) *alerts.Message {
	data := alerts.Data{Text: text, State: alerts.On}
	at := time.Now()
	return &alerts.Message{ID: alerts.NewMessageID(), Type: "key_usage", At: at,
		Body: alerts.BodyOf(alerts.FormatStandard, "key_usage", at, &data)}
}

// The verifier is Standard Webhooks' own.
func TestSend_IsSignedAsStandardWebhooksVerifies(t *testing.T) {
	secret, previous, other := alerts.NewSecret(), alerts.NewSecret(), alerts.NewSecret()
	var got []byte
	var header http.Header
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		header = r.Header
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	m := testMessage("é “x”")
	a := newSender(t, "127.0.0.0/8").Send(t.Context(), receiver.URL, []string{secret, previous}, m)
	if !a.Delivered() || a.Status != http.StatusNoContent || string(got) != string(m.Body) {
		t.Fatalf("attempt %+v, body %s", a, got)
	}
	if header.Get("webhook-id") != m.ID || header.Get("Content-Type") != "application/json" ||
		header.Get("User-Agent") != "Sluice/test" {
		t.Errorf("headers %v", header)
	}
	for name, c := range map[string]struct {
		secret string
		body   []byte
		valid  bool
	}{
		"the secret": {secret, got, true}, "the previous secret": {previous, got, true},
		"another secret": {other, got, false}, "another body": {secret, append([]byte(" "), got...), false},
	} {
		verifier, err := standardwebhooks.NewWebhook(c.secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(c.body, header); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
	var body struct {
		Type      string
		Timestamp time.Time
		Data      alerts.Data
	}
	if err := json.Unmarshal(got, &body); err != nil || body.Type != "key_usage" || body.Data.Text != "é “x”" ||
		body.Timestamp.IsZero() {
		t.Errorf("body %s: %v", got, err)
	}
}

func TestSend_SaysWhatWentWrong(t *testing.T) {
	var redirected atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	defer target.Close()
	stop := make(chan struct{})
	defer close(stop)
	serve := func(f http.HandlerFunc) string {
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		return s.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	s := newSender(t, "127.0.0.1")
	s.client.Timeout = 300 * time.Millisecond
	for name, c := range map[string]struct {
		url, want string
		gone      bool
	}{
		"500": {url: serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), want: "answered 500"},
		"410": {url: serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }), want: "answered 410",
			gone: true},
		"redirect": {url: serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
		}),
			want: "answered 307; redirects are not followed"},
		"reset": {url: serve(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}), want: "closed before an answer came"},
		"slow": {url: serve(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}), want: "no answer within"},
		"closed": {url: closed.URL, want: "connection refused"},
		"half an answer": {url: serve(func(w http.ResponseWriter, _ *http.Request) {
			conn, out, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n")
			_ = out.Flush()
			_ = conn.Close()
		}), want: "closed before an answer came"},
		"headers a byte at a time": {url: serve(dripping("HTTP/1.1 200 OK\r\nX: ", stop)), want: "no answer within"},
		"interim answers": {url: serve(dripping("HTTP/1.1 103 Early Hints\r\n\r\n", stop)),
			want: "no answer within"},
		"no HTTP":       {url: serve(dripping("SSH-2.0-OpenSSH_9.2\r\n", stop)), want: "the request failed"},
		"plain for TLS": {url: strings.Replace(closed.URL, "http:", "https:", 1), want: "connection refused"},
		"long headers": {url: serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}), want: "the request failed"},
	} {
		a := s.Send(t.Context(), c.url, []string{alerts.NewSecret()}, testMessage("x"))
		if a.Delivered() || !strings.Contains(a.Error, c.want) || a.Gone != c.gone {
			t.Errorf("%s: %+v", name, a)
		}
		if strings.Contains(a.Error, "127.0.0.1") {
			t.Errorf("%s: the error shows an address: %s", name, a.Error)
		}
	}
	if redirected.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// dripping answers with a text, and then forever with its last letters.
func dripping(text string, stop <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			if _, err := out.WriteString(text); err != nil || out.Flush() != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // slow is what it is to be
			}
			if len(text) > 8 && !strings.HasSuffix(text, "\n") {
				text = text[len(text)-1:]
			}
		}
	}
}

// A receiver that answers 200 has the message, however slow the rest of its answer is.
func TestSend_DoesNotWaitForTheEndOfAnAnswer(t *testing.T) {
	over := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // until the sender has had enough
		close(over)
	}))
	defer receiver.Close()
	s := newSender(t, "127.0.0.1")
	s.client.Timeout = 200 * time.Millisecond
	if a := s.Send(t.Context(), receiver.URL, nil, testMessage("x")); !a.Delivered() || a.Status != 200 {
		t.Errorf("attempt %+v", a)
	}
	<-over
}

// A name server that does not answer, or an address that does not, cannot keep a dial for longer than an attempt.
func TestGuard_DialsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t)
		g.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		conn, err := g.dial(context.Background(), "tcp", "slow.example:443", false)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || time.Since(began) > lookupTimeout {
			t.Errorf("dialled for %s: %v", time.Since(began), err)
		}
	})
}

// A proxy of the environment would connect wherever it likes.
func TestSend_UsesNoProxy(t *testing.T) {
	proxied := false
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied = true }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	s := newSender(t, "127.0.0.1")
	s.opt.Guard.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{IsNotFound: true}
	}
	for _, scheme := range []string{"http", "https"} {
		a := s.Send(t.Context(), scheme+"://hooks.example/", nil, testMessage("x"))
		if !strings.Contains(a.Error, "could not be resolved") || proxied {
			t.Errorf("%s: %+v, by the proxy: %v", scheme, a, proxied)
		}
	}
}

// An endless answer is not read to its end.
func TestSend_ReadsLittleOfAnAnswer(t *testing.T) {
	sent := make(chan int64, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var n int64
		for {
			wrote, err := w.Write(make([]byte, 64<<10))
			if n += int64(wrote); err != nil {
				sent <- n
				return
			}
		}
	}))
	defer receiver.Close()
	if a := newSender(t, "127.0.0.1").Send(t.Context(), receiver.URL, nil, testMessage("x")); !a.Delivered() {
		t.Errorf("attempt %+v", a)
	}
	if n := <-sent; n > 64<<20 {
		t.Errorf("the receiver sent %d bytes", n)
	}
}

func TestSend_ChecksCertificates(t *testing.T) {
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	receiver.Config.ErrorLog = nil
	guard := newGuard(t, "127.0.0.1")
	known := x509.NewCertPool()
	known.AddCert(receiver.Certificate())
	for _, c := range []struct {
		roots *x509.CertPool
		want  string
	}{{nil, "the certificate of the host is not valid"}, {known, ""}} {
		s := NewSender(SenderOptions{Guard: guard, Now: time.Now, Roots: c.roots})
		if a := s.Send(t.Context(), receiver.URL, nil, testMessage("x")); a.Error != c.want {
			t.Errorf("%+v, want %q", a, c.want)
		}
	}
}

// Whatever a name leads to at the moment of dialling is what counts, not what it led to when the webhook was saved.
func TestSend_ChecksTheAddressWhenItDials(t *testing.T) {
	reached := false
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer receiver.Close()
	_, port, _ := net.SplitHostPort(receiver.Listener.Addr().String())
	s := newSender(t)
	addr := netip.MustParseAddr("93.184.216.34")
	s.opt.Guard.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{addr}, nil }
	if err := s.opt.Guard.Check(t.Context(), "https://rebind.example/"); err != nil {
		t.Errorf("saved: %v", err)
	}
	addr = netip.MustParseAddr("127.0.0.1")
	for _, scheme := range []string{"https", "http"} {
		a := s.Send(t.Context(), scheme+"://rebind.example:"+port+"/", nil, testMessage("x"))
		if a.Delivered() || !strings.Contains(a.Error, "the address is not allowed") {
			t.Errorf("%s: %+v", scheme, a)
		}
	}
	var invalid *field.ValidationError
	if err := s.opt.Guard.Check(t.Context(), "https://rebind.example/"); !errors.As(err, &invalid) ||
		invalid.Fields[0].Field != "url" {
		t.Errorf("saved again: %v", err)
	}
	if reached {
		t.Error("a loopback address was reached")
	}
}

func TestGuard_AllowsPublicAddressesAndWhatIsListed(t *testing.T) {
	translated := newGuard(t, "10.1.0.0/16")
	translated.reach = match.Options{NAT64: []netip.Prefix{netip.MustParsePrefix("2600:64::/32")}}
	for addr, want := range map[string]bool{"2600:64:5db8:d822::": true, "2600:64:a01:203::": true,
		"2600:64:a9fe:a9fe::": false, "2600:64:7f00:1:ff00::": false, "2600:65::1": true} {
		if got := translated.allows("x.example", netip.MustParseAddr(addr), false); got != want {
			t.Errorf("%s behind a translator: %v", addr, got)
		}
	}
	g := newGuard(t, "hooks.corp.example", "10.1.0.0/16", "192.168.7.7", "fd00:1::/32", "::ffff:10.3.0.0/112")
	for _, c := range []struct {
		addr        string
		tls, inside bool // over TLS, and in the clear
	}{
		{"93.184.216.34", true, false}, {"2606:2800:220:1::1", true, false},
		{"10.1.2.3", true, true}, {"::ffff:10.1.2.3", true, true}, {"192.168.7.7", true, true}, {"fd00:1::5", true, true},
		{"10.2.2.3", false, false}, {"192.168.7.8", false, false}, {"172.16.0.1", false, false}, {"127.0.0.1", false, false},
		{"127.9.9.9", false, false}, {"0.0.0.0", false, false}, {"0.1.2.3", false, false}, {"169.254.169.254", false, false},
		{"100.64.0.1", false, false}, {"100.127.255.255", false, false}, {"224.0.0.1", false, false},
		{"255.255.255.255", false, false}, {"240.0.0.1", false, false}, {"192.0.2.1", false, false},
		{"198.18.0.1", false, false}, {"::1", false, false}, {"::", false, false}, {"::ffff:127.0.0.1", false, false},
		{"::ffff:169.254.169.254", false, false}, {"::127.0.0.1", false, false}, {"fe80::1%eth0", false, false},
		{"fd00:2::1", false, false}, {"fc00::1", false, false}, {"fec0::1", false, false}, {"ff02::1", false, false},
		{"64:ff9b::7f00:1", false, false}, {"64:ff9b::5db8:d822", true, false},
		{"64:ff9b::a9fe:a9fe", false, false}, {"64:ff9b::a01:203", true, true}, {"10.3.0.9", true, true},
		{"64:ff9b:1::1", false, false},
		{"2002:7f00:1::1", false, false}, {"2001:0:1::1", false, false}, {"2001:db8::1", false, false},
		{"fd00:ec2::254", false, false},
	} {
		addr := netip.MustParseAddr(c.addr)
		if got := g.allows("x.example", addr, false); got != c.tls {
			t.Errorf("%s over TLS: %v", c.addr, got)
		}
		if got := g.allows("x.example", addr, true); got != c.inside {
			t.Errorf("%s in the clear: %v", c.addr, got)
		}
		if !g.allows("Hooks.Corp.Example.", addr, true) {
			t.Errorf("%s of a listed host is not allowed", c.addr)
		}
	}
}

func TestGuard_ChecksWhatIsSaved(t *testing.T) {
	g := newGuard(t, "10.1.0.0/16", "intern", "bücher.intern")
	known := map[string][]netip.Addr{
		"public": {netip.MustParseAddr("93.184.216.34")}, "listed": {netip.MustParseAddr("10.1.0.9")},
		"mixed": {netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1")},
	}
	g.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if known[host] == nil {
			return nil, &net.DNSError{Name: host, IsNotFound: true}
		}
		return known[host], nil
	}
	for url, want := range map[string]string{
		"https://public/": "", "https://listed/": "", "http://listed/": "", "http://intern/": "", "https://not-yet/": "",
		"http://public/": "https", "http://not-yet/": "https", "https://mixed/": "not public",
		"https://127.0.0.1/": "not public",
		"https://[::1]/":     "not public", "https://[64:ff9b::7f00:1]/": "not public", "https://10.1.2.3/": "",
		"http://169.254.169.254/latest": "not public", "https://１２７.０.０.１/": "not public",
		"https://[::ffff:127.0.0.1]/": "not public", "http://BÜCHER.intern./": "", "http://xn--bcher-kva.intern/": "",
	} {
		err := g.Check(t.Context(), url)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
