package gateways_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded sends the requests in testdata, which gateways make that cannot be run here, over
// one connection each, as gateways do.
func recorded(t *testing.T, p *product) {
	n := p.serve(t, freeAddr(t))
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) < 5 {
		t.Fatalf("testdata has %v, %v", files, err)
	}
	for _, file := range files {
		request := wire(t, file, p.token)
		c := dial(t, n.addr)
		r := bufio.NewReader(c)
		for i := range 6 {
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.Close {
				t.Errorf("%s: the connection is closed after question %d: %v", file, i, err)
			}
			got := response{res.StatusCode, res.Header, string(body)}
			if i < 5 && (got.status != http.StatusOK || got.body != "" ||
				!strings.Contains(got.header.Get("RateLimit"), `"shop-key"`)) {
				t.Errorf("%s: question %d got %d %v %s", file, i, got.status, got.header, got.body)
			}
			if i == 5 {
				wantDenial(t, got)
			}
		}
	}
}

// wire reads a recorded request: comments are left out, and lines end as HTTP wants them.
func wire(t *testing.T, file, token string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\r\n")
		}
	}
	return strings.ReplaceAll(out.String(), "{token}", token)
}
