package app

import (
	"io"
	"net/http"
	"testing"

	"sluice/web/browsertest"
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

// The pages of the API are accessible on a screen and on a phone, in both themes, and load nothing that is refused.
func TestProblems_PagesInABrowser(t *testing.T) {
	t.Parallel()
	n := standing(t)
	b, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tab, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	if err := tab.Checker(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/docs", "/docs/decisions", "/docs/schemas", "/problems/overloaded"} {
		for _, width := range []int64{1280, 320} {
			if err := tab.Show(width, 800, width == 320); err != nil {
				t.Fatal(err)
			}
			if err := tab.Go(n.url + path); err != nil {
				t.Fatal(err)
			}
			// Of rules that take long on long pages, the contrast is the one that a theme changes.
			bad, err := tab.Violations("color-contrast", "link-in-text-block", "heading-order", "list", "definition-list",
				"scrollable-region-focusable", "target-size", "page-has-heading-one", "region", "duplicate-id-aria")
			if err != nil {
				t.Fatal(err)
			}
			wide, err := tab.Wide()
			if err != nil {
				t.Fatal(err)
			}
			if len(bad) > 0 || wide > 0 {
				t.Errorf("%s at %d: %v, %d px too wide", path, width, bad, wide)
			}
		}
	}
	if said := tab.Complaints(); len(said) > 0 {
		t.Errorf("the browser says %v", said)
	}
}
