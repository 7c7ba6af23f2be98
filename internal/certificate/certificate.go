// Package certificate loads a TLS certificate and authorities from files, for a listener or for the connections of a
// client, and loads them again when the files change.
//
// A tool replaces the certificate and key of a running node. Within a second, Check
// loads the pair and new connections get it. If the key does not match the certificate,
// for example because only one of the files was replaced so far, connections get the
// previous certificate, and the log and the metrics say so.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"sluice/internal/tick"
	"sluice/internal/trouble"
)

// checkInterval is how often Run looks for changed files. It reads them, because
// modification times do not show every way to replace a file.
const checkInterval = time.Second

// Settings are the settings of files, as errors name them.
type Settings struct{ Cert, Key, CA string }

// The settings of the listeners, and the settings of connections to other regions.
var (
	Listener = Settings{"--tls-cert-file (SLUICE_TLS_CERT_FILE)", "--tls-key-file (SLUICE_TLS_KEY_FILE)",
		"--tls-client-ca-file (SLUICE_TLS_CLIENT_CA_FILE)"}
	Region = Settings{"--region-cert-file (SLUICE_REGION_CERT_FILE)", "--region-key-file (SLUICE_REGION_KEY_FILE)",
		"--region-ca-file (SLUICE_REGION_CA_FILE)"}
)

// Files are the paths of PEM files. CA, the authorities of the other side, may be empty. Cert and Key may be empty for
// a client.
type Files struct {
	Settings      Settings
	Cert, Key, CA string
	Trouble       *trouble.Registry // nil discards
}

var unusable = trouble.Declare(trouble.Condition{Code: "tls_files_unusable",
	Advice: "correct the files that the attribute error names; the node reads them again by itself", Of: "setting",
	EachReason: true,
	Starts:     "the changed TLS files are not usable; the previous certificate stays in force",
	Ends:       "the TLS files are usable again"})

// Source provides the certificate in force. It is safe for concurrent use, except that
// Check is not called concurrently with itself.
type Source struct {
	files   Files
	log     *slog.Logger
	now     func() time.Time
	seen    contents // by the last Check
	current atomic.Pointer[loaded]
	failing atomic.Bool
}

// contents are the bytes of the files.
type contents struct{ cert, key, ca []byte }

func (c *contents) equal(d *contents) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && bytes.Equal(c.ca, d.ca)
}

// loaded is what the files say.
type loaded struct {
	pair *tls.Certificate // nil if there is none
	ca   *x509.CertPool   // nil if there are none: a listener requests no certificates, a client trusts the system's
}

// Open loads the files. An error names the setting whose file is not usable.
func Open(files Files, log *slog.Logger, now func() time.Time) (*Source, error) {
	s := &Source{files: files, log: log, now: now}
	var err error
	if s.seen, err = s.read(); err != nil {
		return nil, err
	}
	l, err := load(&s.files.Settings, &s.seen)
	if err != nil {
		return nil, err
	}
	s.use(l)
	return s, nil
}

// authenticated are the suites of TLS 1.2 with forward secrecy and authenticated encryption (AEAD). The default list of
// Go also contains suites of AES in CBC mode. All suites of TLS 1.3 are of this kind.
var authenticated = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Config returns the configuration of a listener that offers the given protocols
// (ALPN). Each connection gets the certificate that is in force when it arrives. With a
// CA, clients may present a certificate; if they do, it must be valid.
func (s *Source) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: authenticated, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			l := s.current.Load()
			c := &tls.Config{
				MinVersion: tls.VersionTLS12, CipherSuites: authenticated, NextProtos: protocols,
				Certificates: []tls.Certificate{*l.pair},
			}
			if l.ca != nil {
				c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, l.ca
			}
			return c, nil
		},
	}
}

// ClientConfig returns the configuration of a new connection to a server: with the certificate in force, if there is
// one, and the authorities of the CA, or the authorities of the system if no CA is set.
func (s *Source) ClientConfig() *tls.Config {
	l := s.current.Load()
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: authenticated, RootCAs: l.ca}
	if l.pair != nil {
		c.Certificates = []tls.Certificate{*l.pair}
	}
	return c
}

// Run checks the files until ctx ends.
func (s *Source) Run(ctx context.Context) {
	for range tick.Every(ctx, checkInterval) {
		s.Check()
	}
}

// Check loads the files if they changed since the last Check. If they are not usable,
// the certificate in force stays.
func (s *Source) Check() {
	c, err := s.read()
	if c.equal(&s.seen) {
		return
	}
	s.seen = c
	var l *loaded
	if err == nil {
		l, err = load(&s.files.Settings, &c)
	}
	s.failing.Store(err != nil)
	s.files.Trouble.Note(unusable, s.files.Settings.Cert, err)
	if err == nil {
		s.use(l)
	}
}

// Expires is when the certificate in force expires. Call it only if there is one.
func (s *Source) Expires() time.Time { return s.current.Load().pair.Leaf.NotAfter }

// Failing reports whether the last Check found files that are not usable.
func (s *Source) Failing() bool { return s.failing.Load() }

func (s *Source) use(l *loaded) {
	s.current.Store(l)
	if l.pair == nil {
		return
	}
	leaf := l.pair.Leaf
	s.log.Info("TLS certificate loaded", "names", leaf.DNSNames, "addresses", leaf.IPAddresses, "expires", leaf.NotAfter)
	if s.now().After(leaf.NotAfter) {
		s.log.Warn("the TLS certificate has expired; the other side will refuse it", "expired", leaf.NotAfter)
	}
}

// read reads the files. If one cannot be read, the others are still returned.
func (s *Source) read() (c contents, err error) {
	var errs [3]error
	f := &s.files
	c.cert, errs[0] = readFile(f.Settings.Cert, f.Cert)
	c.key, errs[1] = readFile(f.Settings.Key, f.Key)
	c.ca, errs[2] = readFile(f.Settings.CA, f.CA)
	return c, errors.Join(errs[:]...)
}

// readFile returns nil without a path.
func readFile(setting, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(b)) == 0 {
		err = fmt.Errorf("%s is empty", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return b, nil
}

func load(names *Settings, c *contents) (*loaded, error) {
	l := &loaded{}
	if c.cert != nil || c.key != nil {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", names.Cert, names.Key, err)
		}
		l.pair = &pair
	}
	if c.ca != nil {
		l.ca = x509.NewCertPool()
		if !l.ca.AppendCertsFromPEM(c.ca) {
			return nil, fmt.Errorf("%s: the file has no certificate in PEM form", names.CA)
		}
	}
	return l, nil
}
