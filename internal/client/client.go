// Package client is the HTTP client of the commands that use a running server. It does
// not retry, because a repeated check would be charged twice.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxResponse is how many bytes of a response are read.
const maxResponse = 256 << 20

// Client sends requests to one server with one token. It is safe for concurrent use.
type Client struct {
	base, token string
	http        *http.Client
}

// New returns a client of the server at base, such as http://127.0.0.1:8080. With an
// empty token, requests have no credentials.
func New(base, token string) *Client {
	return &Client{
		base: strings.TrimSuffix(base, "/"), token: token,
		http: &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token must not be sent to another server
		}},
	}
}

// Patient returns a client with a timeout for the import of the largest file.
func (c *Client) Patient() *Client {
	patient, h := *c, *c.http
	h.Timeout = 11 * time.Minute
	patient.http = &h
	return &patient
}

// WithRoots returns a client that checks the server's certificate against roots.
func (c *Client) WithRoots(roots *x509.CertPool) *Client {
	out, h := *c, *c.http
	h.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	out.http = &h
	return &out
}

// Problem is an error response of the server (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`
}

// Error returns the title, the detail, and one line for each invalid field.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server responded with status %d", p.Status)
	for _, s := range []string{p.Title, p.Detail} {
		if s != "" {
			b.WriteString(": " + s)
		}
	}
	for _, e := range p.Errors {
		fmt.Fprintf(&b, "\n  %s %s", e.Field, e.Message)
	}
	if p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		b.WriteString("\n  set SLUICE_TOKEN to a token; create one with sluice token create")
	}
	return b.String()
}

// Post sends a JSON document and returns the body of the response, or a *Problem.
func (c *Client) Post(ctx context.Context, path string, document any) ([]byte, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, http.MethodPost, path, "application/json", body)
}

// Do sends one request and returns the body of a 2xx response. Any other response is a
// *Problem. headers are additional headers, names and values alternating.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body []byte, headers ...string) ([]byte,
	error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w\nstart a server with sluice serve, or set --server (SLUICE_SERVER) to the URL of a "+
			"running server", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("reading the server's response failed: %w", err)
	}
	if res.StatusCode/100 == 2 {
		return answer, nil
	}
	return nil, problemOf(res, answer)
}

func problemOf(res *http.Response, body []byte) *Problem {
	p := &Problem{}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err == nil && (kind == "application/problem+json" || kind == "application/json") && json.Unmarshal(body, p) == nil {
		p.Status = res.StatusCode
		return p
	}
	return &Problem{Title: http.StatusText(res.StatusCode), Status: res.StatusCode}
}
