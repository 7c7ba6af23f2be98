package certificate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/internal/trouble"
)

// fixture is a Source on files of its own.
type fixture struct {
	authority *testenv.Authority
	files     Files
	source    *Source
	server    *tls.Config // one for all connections, as a listener has
	log       bytes.Buffer
}

func open(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{authority: testenv.NewAuthority(t)}
	f.files.Settings, f.files.CA = Listener, f.authority.File
	f.files.Cert, f.files.Key = f.authority.Issue(t, t.TempDir(), "first.test", time.Now().Add(time.Hour))
	var err error
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	f.files.Trouble = trouble.New(log, time.Now, nil)
	f.source, err = Open(f.files, log, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f.server = f.source.Config("http/1.1")
	return f
}

// copyFile replaces a file by another one, as a tool does that renews certificates.
func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err := errors.Join(err, os.WriteFile(to+".new", b, 0o600), os.Rename(to+".new", to)); err != nil {
		t.Fatal(err)
	}
}

// connect performs a handshake and returns what both sides know of each other.
func (f *fixture) connect(t *testing.T, client *tls.Config) (seen, said tls.ConnectionState, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client.ServerName = "localhost"
	server := tls.Server(b, f.server)
	done := make(chan error, 1)
	go func() {
		err := server.HandshakeContext(t.Context())
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		done <- errors.Join(err, b.Close())
	}()
	c := tls.Client(a, client)
	if _, err = c.Read(make([]byte, 1)); err == nil { // in TLS 1.3 the refusal of a certificate comes last
		seen = c.ConnectionState()
	}
	return seen, server.ConnectionState(), errors.Join(err, a.Close(), <-done)
}

func TestCheck_PutsChangedFilesInForce(t *testing.T) {
	f := open(t)
	seen, _, err := f.connect(t, f.authority.Client(t, ""))
	if err != nil || seen.PeerCertificates[0].Subject.CommonName != "first.test" {
		t.Fatalf("got %v, %v", seen.PeerCertificates, err)
	}
	later := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	cert, key := f.authority.Issue(t, t.TempDir(), "second.test", later)
	copyFile(t, f.files.Cert, cert)
	f.source.Check() // between the two files
	if !f.source.Failing() {
		t.Error("a key that does not match is not reported")
	}
	if seen, _, err = f.connect(t, f.authority.Client(t, "")); err != nil ||
		seen.PeerCertificates[0].Subject.CommonName != "first.test" {
		t.Errorf("with a key that does not match, clients see %v, %v", seen.PeerCertificates, err)
	}
	f.source.Check()
	if n := strings.Count(f.log.String(), "not usable"); n != 1 || !strings.Contains(f.log.String(), Listener.Key) {
		t.Errorf("%d log lines about one change: %s", n, &f.log)
	}
	copyFile(t, f.files.Key, key)
	f.source.Check()
	if seen, _, err = f.connect(t, f.authority.Client(t, "")); err != nil ||
		seen.PeerCertificates[0].Subject.CommonName != "second.test" || f.source.Failing() {
		t.Errorf("with the second certificate, clients see %v, %v", seen.PeerCertificates, err)
	}
	if got := f.source.Expires(); !got.Equal(later) {
		t.Errorf("expires %v, want %v", got, later)
	}
	for what, broken := range map[string]string{"missing": "", "empty": f.files.Key + ".empty"} {
		if err := os.Remove(f.files.Key); err != nil {
			t.Fatal(err)
		}
		if broken != "" {
			if err := os.WriteFile(f.files.Key, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.source.Check()
		if _, _, err = f.connect(t, f.authority.Client(t, "")); err != nil || !f.source.Failing() {
			t.Errorf("a %s key: failing %v, clients get %v", what, f.source.Failing(), err)
		}
		copyFile(t, f.files.Key, key)
		f.source.Check()
		if f.source.Failing() {
			t.Errorf("after a %s key, the same key as before is not accepted", what)
		}
	}
}

func TestConfig_ClientCertificatesAreOptionalAndVerified(t *testing.T) {
	f := open(t)
	if _, said, err := f.connect(t, f.authority.Client(t, "")); err != nil || len(said.VerifiedChains) != 0 {
		t.Errorf("without a certificate: %v, %v", said.VerifiedChains, err)
	}
	_, said, err := f.connect(t, f.authority.Client(t, "gateway.test"))
	if err != nil || len(said.VerifiedChains) == 0 || said.PeerCertificates[0].Subject.CommonName != "gateway.test" {
		t.Errorf("with one: %v, %v", said.VerifiedChains, err)
	}
	stranger := testenv.NewAuthority(t).Client(t, "gateway.test")
	stranger.RootCAs = f.authority.Pool
	// A server asks for certificates of its own authorities; a client may answer with another.
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &stranger.Certificates[0], nil
	}
	if _, _, err := f.connect(t, stranger); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
	// Another authority takes over.
	other := testenv.NewAuthority(t)
	copyFile(t, f.files.CA, other.File)
	f.source.Check()
	if _, _, err := f.connect(t, stranger); err == nil {
		t.Error("a certificate of a third authority is accepted")
	}
	welcome := other.Client(t, "gateway.test")
	welcome.RootCAs = f.authority.Pool
	if _, said, err := f.connect(t, welcome); err != nil || len(said.VerifiedChains) == 0 {
		t.Errorf("the new authority's certificate: %v, %v", said.VerifiedChains, err)
	}
}

// A session of earlier must not outlive the authority that vouched for its client.
func TestConfig_ResumedSessionsEndWithTheirAuthority(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := open(t)
		c := f.authority.Client(t, "gateway.test")
		c.MaxVersion, c.ClientSessionCache = version, tls.NewLRUClientSessionCache(1)
		for _, resumed := range []bool{false, true} {
			_, said, err := f.connect(t, c)
			if err != nil || said.DidResume != resumed || len(said.VerifiedChains) == 0 {
				t.Fatalf("%#x: resumed %v, want %v: %v, %v", version, said.DidResume, resumed, said.VerifiedChains, err)
			}
		}
		copyFile(t, f.files.CA, testenv.NewAuthority(t).File)
		f.source.Check()
		if _, said, err := f.connect(t, c); len(said.VerifiedChains) > 0 {
			t.Errorf("%#x: the certificate of the previous authority is a proof; resumed %v, %v", version, said.DidResume, err)
		}
	}
}

func TestConfig_RefusesOldProtocols(t *testing.T) {
	f := open(t)
	c := f.authority.Client(t, "")
	c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, _, err := f.connect(t, c); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	c.MaxVersion = tls.VersionTLS12
	if seen, _, err := f.connect(t, c); err != nil || seen.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %v", err)
	}
}

func TestConfig_TLS12HasAuthenticatedEncryptionOnly(t *testing.T) {
	f := open(t)
	c := f.authority.Client(t, "")
	c.MaxVersion = tls.VersionTLS12
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		c.CipherSuites = []uint16{suite.ID}
		if _, _, err := f.connect(t, c); err == nil && !slices.Contains(authenticated, suite.ID) {
			t.Errorf("%s is accepted", suite.Name)
		}
	}
	c.CipherSuites = authenticated
	if _, _, err := f.connect(t, c); err != nil {
		t.Errorf("none of the authenticated suites is accepted: %v", err)
	}
}

func TestOpen_NamesTheSetting(t *testing.T) {
	f := open(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stranger := f.authority.Issue(t, t.TempDir(), "stranger.test", time.Now().Add(time.Hour))
	tests := []struct {
		what   string
		change func(*Files)
		want   string
	}{
		{"no certificate file", func(f *Files) { f.Cert += ".missing" }, Listener.Cert},
		{"no key file", func(f *Files) { f.Key += ".missing" }, Listener.Key},
		{"no authority file", func(f *Files) { f.CA += ".missing" }, Listener.CA},
		{"no certificate in the file", func(f *Files) { f.Cert = garbage }, Listener.Cert},
		{"no key in the file", func(f *Files) { f.Key = garbage }, Listener.Key},
		{"no authority in the file", func(f *Files) { f.CA = garbage }, Listener.CA},
		{"the key of another certificate", func(f *Files) { f.Key = stranger }, Listener.Key},
	}
	for _, tt := range tests {
		files := f.files
		tt.change(&files)
		_, err := Open(files, slog.New(slog.DiscardHandler), time.Now)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that names %s", tt.what, err, tt.want)
		}
	}
}

func TestOpen_ExpiredCertificateIsLogged(t *testing.T) {
	f := open(t)
	f.files.Cert, f.files.Key = f.authority.Issue(t, t.TempDir(), "old.test", time.Now().Add(-time.Hour))
	if _, err := Open(f.files, slog.New(slog.NewTextHandler(&f.log, nil)), time.Now); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.log.String(), "has expired") {
		t.Errorf("log %s", &f.log)
	}
}

func TestClientConfig_OffersAuthenticatedEncryptionOnly(t *testing.T) {
	c := open(t).source.ClientConfig()
	c.ServerName = "localhost"
	near, far := net.Pipe()
	var greeted sync.WaitGroup
	greeted.Go(func() { _ = tls.Client(near, c).HandshakeContext(t.Context()) })
	var offered []uint16
	seen := errors.New("seen")
	err := tls.Server(far, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = h.CipherSuites
		return nil, seen
	}}).HandshakeContext(t.Context())
	_ = far.Close()
	greeted.Wait()
	if !errors.Is(err, seen) {
		t.Fatal(err)
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) && slices.Contains(offered, suite.ID) !=
			slices.Contains(authenticated, suite.ID) {
			t.Errorf("%s is offered: %v", suite.Name, slices.Contains(offered, suite.ID))
		}
	}
}

func TestClientConfig_NewConnectionsUseTheFilesAsTheyAre(t *testing.T) {
	server := open(t)
	f := Files{Settings: Region, CA: server.authority.File}
	dir := t.TempDir()
	f.Cert, f.Key = server.authority.Issue(t, dir, "eu.test", time.Now().Add(time.Hour))
	client, err := Open(f, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	said := func(source *Source) string {
		c := source.ClientConfig()
		c.ServerName = "localhost"
		_, seen, err := server.connect(t, c)
		if err != nil {
			t.Fatal(err)
		}
		if len(seen.PeerCertificates) == 0 {
			return ""
		}
		return seen.PeerCertificates[0].Subject.CommonName
	}
	first := said(client)
	cert, key := server.authority.Issue(t, dir, "us.test", time.Now().Add(time.Hour))
	copyFile(t, f.Cert, cert)
	copyFile(t, f.Key, key)
	client.Check()
	second := said(client)
	onlyCA, err := Open(Files{Settings: Region, CA: f.CA}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if third := said(onlyCA); first != "eu.test" || second != "us.test" || third != "" {
		t.Errorf("the server saw the certificates %q, %q and %q", first, second, third)
	}
	f.Key += ".missing"
	_, err = Open(f, slog.New(slog.DiscardHandler), time.Now)
	if err == nil || !strings.Contains(err.Error(), Region.Key) {
		t.Errorf("a missing key: %v, want an error that names %s", err, Region.Key)
	}
}
