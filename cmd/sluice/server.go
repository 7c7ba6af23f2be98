package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"sluice/api/client"
	"sluice/internal/config"
	"sluice/internal/secretfile"
)

// Timeouts of the commands' calls. importTimeout is for the import of the largest file.
const (
	callTimeout   = 30 * time.Second
	importTimeout = 11 * time.Minute
)

// connectTo returns a client of a running server, to be closed after use.
func connectTo(ctx context.Context, c *config.Client, timeout time.Duration) (*client.Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opt := client.Options{Token: c.Token.Value, TokenFile: c.Token.File, CallTimeout: timeout, Log: log}
	if secret := localSecret(ctx, c, log); secret != "" {
		opt.Token = secret
	}
	for _, s := range config.Secrets(c) {
		if s.File == "" {
			continue
		}
		// An error of the client would not name the setting of the command.
		if _, err := secretfile.Open(secretfile.Options{Setting: s.FileNames(), Path: s.File, Now: time.Now}); err != nil {
			return nil, err
		}
	}
	var err error
	if opt.TLS, err = certificates(c); err != nil {
		return nil, err
	}
	return client.New(c.Server, opt)
}

// certificates returns the TLS configuration with the authorities and the client certificate of a command.
func certificates(c *config.Client) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--ca (SLUICE_CA_FILE): %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca (SLUICE_CA_FILE): %s has no certificate in PEM form", c.CAFile)
		}
	}
	if c.ClientCertFile == "" {
		return cfg, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.ClientCertFile, c.ClientKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--client-cert (SLUICE_CLIENT_CERT_FILE) and --client-key (SLUICE_CLIENT_KEY_FILE): %w", err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = load
	return cfg, nil
}

// advice returns what to do about an error of a call, to be printed after it.
func advice(err error) string {
	var p *client.Problem
	var unavailable *client.UnavailableError
	var unreached *url.Error
	var untrusted x509.UnknownAuthorityError
	switch {
	case errors.As(err, &untrusted):
		return "\nset --ca (SLUICE_CA_FILE) to the certificates of the authorities that the server's certificate comes from"
	case errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden):
		return "\n  set SLUICE_TOKEN to a token, or SLUICE_TOKEN_FILE to its file; create one with sluice token create"
	case errors.As(err, &unavailable) && errors.As(err, &unreached):
		return "\nstart a server with sluice serve, or set --server (SLUICE_SERVER) to the URL of a running server"
	}
	return ""
}
