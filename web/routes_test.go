package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web"
	"sluice/web/webtest"
)

// concrete fills the parameters of a path in Echo's notation.
func concrete(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, ":") {
			parts[i] = "1"
		}
	}
	return strings.Join(parts, "/")
}

func do(b *webtest.Browser, r web.Route) webtest.Page {
	var form url.Values
	if r.Method != http.MethodGet {
		form = url.Values{}
	}
	return b.Do(r.Method, concrete(r.Path), form)
}

func TestRoutes_LetInOnlyTheirRole(t *testing.T) {
	for _, kind := range []webtest.Kind{webtest.Full, webtest.SignOn} {
		letInOnlyTheirRole(t, kind)
	}
}

func letInOnlyTheirRole(t *testing.T, kind webtest.Kind) {
	t.Helper()
	roles := append([]access.Role{""}, access.Roles()...)
	for _, role := range roles {
		w := world(t, kind)
		b := w.As(role)
		for _, r := range web.Table() {
			page := do(b, r)
			if r.Path == "/console/sign-out" {
				b = w.As(role)
			}
			name := r.Method + " " + r.Path + " as " + string(role)
			toSignIn := page.Code == http.StatusSeeOther && strings.HasPrefix(page.Header.Get("Location"), "/console/sign-in")
			switch {
			case r.Role == "":
				if page.Code == http.StatusForbidden && r.Path != "/console/welcome" {
					t.Errorf("%s: everyone may, got %d", name, page.Code)
				}
			case role == "":
				if !toSignIn {
					t.Errorf("%s: got %d to %q, want the way to sign in", name, page.Code, page.Header.Get("Location"))
				}
			case !role.Includes(r.Role):
				if page.Code != http.StatusForbidden || !page.Has("Permission denied") {
					t.Errorf("%s: got %d, want 403", name, page.Code)
				}
			default:
				if page.Code == http.StatusForbidden || toSignIn || page.Code >= http.StatusInternalServerError {
					t.Errorf("%s: got %d, want it let in", name, page.Code)
				}
			}
		}
	}
}

func TestRoutes_RefuseOtherSites(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	for _, head := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}},
		{"Origin": {"null"}},
	} {
		b.Header = head
		for _, r := range web.Table() {
			page := do(b, r)
			if r.Method == http.MethodGet {
				if page.Code == http.StatusForbidden && r.Path != "/console/welcome" {
					t.Errorf("%s %s with %v: a link from elsewhere is refused", r.Method, r.Path, head)
				}
				continue
			}
			if page.Code != http.StatusForbidden || !page.Has("from another website") {
				t.Errorf("%s %s with %v: got %d, want 403", r.Method, r.Path, head, page.Code)
			}
		}
	}
}

func TestRoutes_EveryPageHasTheHeaders(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	for _, r := range append(web.Table(), web.Route{Method: http.MethodGet, Path: "/console/nothing"}) {
		h := do(b, r).Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s %s: policy %q lacks %s", r.Method, r.Path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("Cache-Control") != "no-store" ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s %s: headers %v", r.Method, r.Path, h)
		}
	}
}

func TestRoutes_WhatChangesAnythingIsNotGet(t *testing.T) {
	for _, r := range web.Table() {
		if r.Reauth != nil && r.Role == "" {
			t.Errorf("%s %s asks nobody for a password", r.Method, r.Path)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodPost {
			t.Errorf("%s %s: a form can only GET and POST", r.Method, r.Path)
		}
	}
}

// forViewers are the acts that change nothing but what is the visitor's own.
var forViewers = []string{
	"/console/sign-in", "/console/sso/start", "/console/sign-out", "/console/welcome", "/console/theme", "/console/invite",
	"/console/explain", "/console/keys", "/console/account/password", "/console/account/sessions",
	"/console/begin", "/console/search", "/console/tour", "/console/views", "/console/views/:id",
	"/console/views/:id/remove",
}

// TestRoutes_TakeWhatTheirActDeserves says by the paths what the table says row by
// row: editors change rules, admins look after people and tokens, and what cannot
// be undone takes the password.
func TestRoutes_TakeWhatTheirActDeserves(t *testing.T) {
	const hooks = "/console/alerts/webhooks"
	admins := func(path string) bool {
		return strings.HasPrefix(path, "/console/people") || strings.HasPrefix(path, "/console/tokens") ||
			strings.HasPrefix(path, hooks) && path != hooks+"/:name/test"
	}
	for _, r := range web.Table() {
		if r.Method != http.MethodPost {
			continue
		}
		switch {
		case slices.Contains(forViewers, r.Path):
		case admins(r.Path):
			if r.Role != access.RoleAdmin || r.Reauth == nil {
				t.Errorf("%s is for %q, password %v; want admins who have just given it", r.Path, r.Role, r.Reauth != nil)
			}
		case strings.HasPrefix(r.Path, hooks) && r.Role != access.RoleAdmin:
			t.Errorf("%s is for %q", r.Path, r.Role)
		case !r.Role.Includes(access.RoleEditor):
			t.Errorf("%s is for %q", r.Path, r.Role)
		}
		for _, final := range []string{"/delete", "/reset", "/revoke", "/apply"} {
			if strings.HasSuffix(r.Path, final) && r.Reauth == nil {
				t.Errorf("%s asks for no password", r.Path)
			}
		}
	}
}

func TestMissing_IsAPageOfItsOwn(t *testing.T) {
	w := world(t, webtest.Full)
	if page := w.As(access.RoleViewer).Get("/console/nothing"); page.Code != http.StatusNotFound ||
		!page.Has("Not found", "vera") {
		t.Errorf("got %d", page.Code)
	}
	if page := w.Browser().Get("/console/nothing"); page.Code != http.StatusSeeOther {
		t.Errorf("a stranger got %d", page.Code)
	}
	if page := w.Browser().Get("/"); page.Code != http.StatusFound || page.Header.Get("Location") != "/console" {
		t.Errorf("/ gave %d to %q", page.Code, page.Header.Get("Location"))
	}
}
