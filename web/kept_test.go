package web_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web"
	"sluice/web/webtest"
)

// mine is a form with something typed into it.
func mine() url.Values {
	return url.Values{"reason": {"<b>mine</b>"}, "password": {"hunter2 hunter2"}, "current": {"hunter3"},
		"confirm_password": {"hunter4"}}
}

func carries(page webtest.Page, path string) bool {
	return page.Has(`action="`+path+`"`, `name="reason" value="&lt;b&gt;mine&lt;/b&gt;"`, "Send again") &&
		!page.Has("<b>mine") && !page.Has("hunter")
}

func TestKept_EveryFormOutlivesItsSessionAndTheDatabase(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	stranger := w.Browser()
	for _, r := range web.Table() {
		if r.Method != http.MethodPost || r.Role == "" {
			continue
		}
		path := concrete(r.Path)
		if page := stranger.Post(path, mine()); page.Code != http.StatusUnauthorized || !carries(page, path) ||
			!page.Has("You are signed out", `href="/console/sign-in" target="_blank"`) {
			t.Errorf("%s without a session: %d", path, page.Code)
		}
		w.Sessions.Err = rules.ErrUnavailable
		if page := b.Post(path, mine()); page.Code != http.StatusServiceUnavailable || !carries(page, path) {
			t.Errorf("%s without the database: %d", path, page.Code)
		}
		w.Sessions.Err = nil
	}
	if page := stranger.Post("/console/rules/1/state", url.Values{}); page.Code != http.StatusSeeOther {
		t.Errorf("a form with nothing in it: %d, want the way to sign in", page.Code)
	}
}

func TestKept_WhatAnotherSiteSendsIsNotEchoed(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleAdmin)
	b.Header.Set("Sec-Fetch-Site", "cross-site")
	if page := b.Post("/console/rules", mine()); page.Code != http.StatusForbidden || page.Has("mine") {
		t.Errorf("%d", page.Code)
	}
}

func TestKept_NothingIsOfferedAgainWhereNobodyTyped(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleEditor)
	page := b.Post("/console/rules/1/overrides/1/delete", url.Values{"version": {"99"}})
	if page.Code != http.StatusConflict || page.Has("Send again") {
		t.Errorf("a stale deletion: %d\n%s", page.Code, page.Body)
	}
}

func TestKept_StrangersAreReadNoMoreThanAForm(t *testing.T) {
	b := world(t, webtest.Full).Browser()
	if page := b.Post("/console/import/apply",
		url.Values{"text": {strings.Repeat("a", 1<<20)}}); page.Code != http.StatusSeeOther || len(page.Body) > 1024 {
		t.Errorf("%d, %d bytes", page.Code, len(page.Body))
	}
}

func TestKept_APartOfAPageStaysAPart(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.Browser()
	b.Header.Set("HX-Request", "true")
	page := b.Post("/console/rules/preview", webtest.RuleForm())
	if page.Code != http.StatusUnauthorized || page.Header.Get("HX-Redirect") != "" || page.Has("<html") ||
		!page.Has("You are signed out") {
		t.Errorf("signed out: %d %v", page.Code, page.Header)
	}
}

func TestKept_AFileIsKeptAsItsText(t *testing.T) {
	w := world(t, webtest.Full)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write([]byte("rules: []\n# mine\n")) // into memory
	_ = form.WriteField("prune", "on")
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []bool{false, true} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/import", bytes.NewReader(body.Bytes()))
		r.Header.Set("Content-Type", form.FormDataContentType())
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w.Rules.Err = nil
		if gone {
			for name, value := range w.As(access.RoleEditor).Cookies() {
				r.AddCookie(&http.Cookie{Name: name, Value: value})
			}
			w.Rules.Err = rules.ErrUnavailable
		}
		out := httptest.NewRecorder()
		w.ServeHTTP(out, r)
		page := webtest.Page{Code: out.Code, Body: out.Body.String()}
		if page.Code < 400 || !page.Has("# mine", `name="prune" value="on"`, "Send again") {
			t.Errorf("%d\n%s", page.Code, page.Body)
		}
	}
}

func TestKept_FormsComeBackFilledIn(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	w.Overrides.Err = rules.ErrUnavailable
	form := url.Values{"rule": {"charges-per-user"}, "key": {"user:43"}, "does": {"limit"}, "limit": {"777"},
		"hours": {"168"}, "reason": {"<b>mine</b>"}}
	page := b.Post("/console/keys/override", form)
	if page.Code != http.StatusServiceUnavailable ||
		!page.Has(`value="777"`, "&lt;b&gt;mine&lt;/b&gt;", `value="168" selected`, "What you typed is still here") {
		t.Errorf("the page of a key without the database: %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/rules/1/overrides/import",
		url.Values{"csv": {"key,limit\nuser:9,5\n"}, "prune": {"on"}, "do": {"apply"}})
	if page.Code != http.StatusServiceUnavailable || !page.Has("user:9,5", "checked", "What you typed is still here") {
		t.Errorf("lines without the database: %d\n%s", page.Code, page.Body)
	}
	w.Overrides.Err = fmt.Errorf("%w: %w", rules.ErrBusy, rules.ErrUnavailable)
	page = b.Post("/console/keys/override", form)
	if page.Code != http.StatusServiceUnavailable ||
		!page.Has("Another change, such as a large import, is in progress", "What you typed is still here") {
		t.Errorf("the page of a key during a large import: %d\n%s", page.Code, page.Body)
	}
	w.Overrides.Err = nil
	page = b.Post("/console/rules/1/overrides/99",
		url.Values{"key": {"user:99"}, "kind": {"limit"}, "limit": {"777"}, "version": {"1"}})
	if page.Code != http.StatusConflict ||
		!page.Has(`value="777"`, `value="user:99"`, `action="/console/rules/1/overrides"`, "deleted this in the meantime") {
		t.Errorf("an override that is gone: %d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/pools/gone",
		url.Values{"limit": {"777"}, "window_ms": {"60000"}, "normal_percent": {"80"}, "low_percent": {"50"},
			"version": {"1"}})
	if page.Code != http.StatusConflict ||
		!page.Has(`value="777"`, `value="gone"`, `action="/console/pools"`, "deleted this in the meantime") {
		t.Errorf("a pool that is gone: %d\n%s", page.Code, page.Body)
	}
}
