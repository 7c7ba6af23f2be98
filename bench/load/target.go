package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is how to reach a server.
type target struct {
	addr   string
	secure bool
	token  string // "" for none
}

// trustAll accepts the certificate of the measured server, which this command has made.
var trustAll = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above

var httpClient = &http.Client{Transport: &http.Transport{TLSClientConfig: trustAll}}

// ask sends one request with a JSON object, a file in CSV, or nothing, and reads the answer.
func (t target) ask(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	scheme := "http://"
	if t.secure {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+t.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		req.Header.Set("Content-Type", "text/csv")
	}
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// expect sends one request and expects the given status.
func (t target) expect(ctx context.Context, method, path, body string, status int) error {
	got, answer, err := t.ask(ctx, method, path, body)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s answered %d: %.4096s", method, path, got, answer)
	}
	return err
}

// createToken creates a token that may do everything, before the server starts.
func createToken(ctx context.Context, bin, data string) (string, error) {
	cmd := exec.CommandContext(ctx, bin, "token", "create", "bench", "--scopes", "admin")
	cmd.Env = append(os.Environ(), "SLUICE_DATA_DIR="+data)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("token create: %w\n%s", err, out)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "slk_") {
			return word, nil
		}
	}
	return "", errors.New("token create printed no token")
}

// certificate writes a certificate that signs itself, and its key.
func certificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "bench.pem"), filepath.Join(dir, "bench.key")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
