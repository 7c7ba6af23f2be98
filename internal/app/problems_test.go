package app

import (
	"io"
	"net/http"
	"testing"
)

// A node serves the pages of problems with the console and without it, also on a connection that plain checks use.
func TestProblems_EveryNodeHasThePages(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func(*testing.T) *node{
		"console":    func(t *testing.T) *node { t.Helper(); return start(t, withConsole(t)) },
		"no console": func(t *testing.T) *node { t.Helper(); return standing(t) },
	} {
		t.Run(name, func(t *testing.T) {
			n := cfg(t)
			get := func(path string) (int, http.Header) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Accept", "text/html")
				res, err := n.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				return res.StatusCode, res.Header
			}
			n.allowed(plenty)
			status, page := get("/problems/overloaded")
			if status != http.StatusOK || page.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("status %d, %v", status, page)
			}
			n.allowed(plenty)
			if name == "no console" {
				return
			}
			// The pages of the console have the same headers, but for what they may load and how long they are kept.
			_, console := get("/console/sign-in")
			for header, values := range console {
				switch header {
				case "Content-Security-Policy", "Cache-Control", "Date", "Content-Length", "Vary", "Set-Cookie":
				default:
					if got := page.Get(header); got != values[0] {
						t.Errorf("%s: %q, of the console %q", header, got, values[0])
					}
				}
			}
		})
	}
}
