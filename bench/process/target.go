package process

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/localtoken"
)

// Target describes how to reach a server.
type Target struct {
	Addr   string
	Secure bool
	Token  string // "" for none
	// DataDir is the data directory of a sluice node whose local token is used if Token is empty; "" for none.
	DataDir string
}

// Authorize adds the credential to a request, if there is one.
func (t Target) Authorize(req *http.Request) error {
	token := t.Token
	if token == "" && t.DataDir != "" {
		var err error
		if token, err = localtoken.Read(t.DataDir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is starting
			return err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// TrustAll accepts the certificate of the measured server, which its program has made.
var TrustAll = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above

var httpClient = &http.Client{Transport: &http.Transport{TLSClientConfig: TrustAll}}

// Ask sends one request with a JSON object, a file in CSV, or nothing, and reads the answer.
func (t Target) Ask(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	scheme := "http://"
	if t.Secure {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+t.Addr+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		req.Header.Set("Content-Type", "text/csv")
	}
	if err := t.Authorize(req); err != nil {
		return 0, nil, err
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// Expect sends one request and expects the given status.
func (t Target) Expect(ctx context.Context, method, path, body string, status int) error {
	got, answer, err := t.Ask(ctx, method, path, body)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s answered %d: %.4096s", method, path, got, answer)
	}
	return err
}

// Metric adds up the series of a sluice node whose names have the prefix.
func (t Target) Metric(ctx context.Context, prefix string) (sum float64, err error) {
	_, text, err := t.Ask(ctx, http.MethodGet, "/metrics", "")
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if name, v, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, prefix) {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", lines.Text(), err)
			}
			sum += n
		}
	}
	return sum, lines.Err()
}
