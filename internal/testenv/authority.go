package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of a test.
type Authority struct {
	// File is the PEM file with its certificate, Pool the same for a client.
	File string
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates a certificate authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := sign(t, template, template, key, key)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), Pool: x509.NewCertPool(), cert: cert, key: key}
	a.Pool.AddCert(cert)
	if err := os.WriteFile(a.File, encode("CERTIFICATE", der), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// Issue writes a certificate for 127.0.0.1, localhost and the given name, which is valid
// for servers and clients until expires, and its key to two files in dir.
func (a *Authority) Issue(t testing.TB, dir, name string, expires time.Time) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost", name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-2 * time.Hour), NotAfter: expires,
	}, a.cert, key, a.key)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	if err := errors.Join(err, os.WriteFile(certFile, encode("CERTIFICATE", der), 0o600),
		os.WriteFile(keyFile, encode("PRIVATE KEY", secret), 0o600)); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// Client returns the TLS configuration of a client that trusts the authority. With a
// name, the client has a certificate of that name.
func (a *Authority) Client(t testing.TB, name string) *tls.Config {
	t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.Pool}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.Issue(t, t.TempDir(), name, time.Now().Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
