package webtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/access"
)

// Browser asks a World for pages without a network, and keeps cookies. It is for
// one goroutine.
type Browser struct {
	world   *World
	cookies map[string]string
	// Header is sent along with every request.
	Header http.Header
	// Address is where it is; "" is 192.0.2.1, which is for documentation.
	Address string
}

// Browser is a new one, in which nobody has signed in.
func (w *World) Browser() *Browser {
	return &Browser{world: w, cookies: map[string]string{}, Header: http.Header{"Sec-Fetch-Site": {"same-origin"}}}
}

// As is a browser in which the account with a role has signed in; "" is nobody.
// It panics if that fails, for then nothing else will work.
func (w *World) As(role access.Role) *Browser {
	b := w.Browser()
	w.last = b
	switch {
	case role == "":
		w.Provider.arrive(b)
		return b
	case w.Provider != nil:
		if page := b.SignOn(Identity(role)); page.Code != http.StatusSeeOther {
			panic(fmt.Sprintf("webtest: single sign-on gave %d: %s", page.Code, page.Body))
		}
		return b
	}
	if w.Node.Replica { // people sign in at the primary
		w.Node.Replica = false
		defer func() { w.Node.Replica = true }()
	}
	if page := b.Post("/console/sign-in",
		url.Values{"name": {Names[role]}, "password": {Password}}); page.Code != http.StatusSeeOther {
		panic(fmt.Sprintf("webtest: signing in gave %d: %s", page.Code, page.Body))
	}
	return b
}

// Page is an answer.
type Page struct {
	Code   int
	Header http.Header
	Body   string
}

// Has reports whether the page contains every text.
func (p Page) Has(texts ...string) bool {
	for _, t := range texts {
		if !strings.Contains(p.Body, t) {
			return false
		}
	}
	return true
}

// HasAny reports whether the page contains one of the texts.
func (p Page) HasAny(texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(p.Body, t) })
}

// Get asks for a page.
func (b *Browser) Get(path string) Page { return b.Do(http.MethodGet, path, nil) }

// Post sends a form.
func (b *Browser) Post(path string, form url.Values) Page { return b.Do(http.MethodPost, path, form) }

// Do makes one request; a redirect is not followed.
func (b *Browser) Do(method, path string, form url.Values) Page {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range b.Header {
		r.Header[k] = v
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if b.Address != "" {
		r.RemoteAddr = net.JoinHostPort(b.Address, "1234")
	}
	w := httptest.NewRecorder()
	b.world.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return Page{Code: w.Code, Header: w.Header(), Body: w.Body.String()}
}

// Cookies are the cookies of the browser.
func (b *Browser) Cookies() map[string]string { return b.cookies }
