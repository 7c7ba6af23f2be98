package main

import (
	"crypto/x509"
	"fmt"
	"os"

	"sluice/internal/client"
	"sluice/internal/config"
)

// connectTo returns a client of a running server.
func connectTo(c *config.Remote, token string) (*client.Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	server := client.New(c.Server, token)
	if c.CAFile == "" {
		return server, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca (SLUICE_CA_FILE): %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca (SLUICE_CA_FILE): %s has no certificate in PEM form", c.CAFile)
	}
	return server.WithRoots(roots), nil
}
