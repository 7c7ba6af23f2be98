package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

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
