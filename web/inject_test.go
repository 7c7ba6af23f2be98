package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/access"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// entry is a form of the gallery, with the page it stands on.
type entry struct {
	shown webtest.Shown
	form  form
}

// entries are the forms of the gallery with each of their buttons, each once:
// forms that go to the same route with the same fields are one.
func entries(t *testing.T) []entry {
	t.Helper()
	var all []entry
	seen := map[string]bool{}
	for _, s := range webtest.Gallery() {
		if s.Kind == webtest.Failing {
			continue // its forms are those of other pages, and every answer is a failure
		}
		page, err := s.Visit()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range formsOf(t, page.Body, s.Path) {
			if f.action == "/console/sign-out" {
				continue
			}
			for _, by := range f.pressed() {
				id := by.method + " " + patternOf(by.method, by.action)
				for _, c := range by.controls {
					id += " " + c.name
				}
				if !seen[id] {
					seen[id] = true
					all = append(all, entry{s, by})
				}
			}
		}
	}
	return all
}

// visitor is a browser in the world of an entry.
func (e *entry) visitor(t *testing.T) (*webtest.World, *webtest.Browser) {
	t.Helper()
	w := world(t, e.shown.Kind)
	if e.shown.Prepare != nil {
		e.shown.Prepare(w)
	}
	return w, w.As(e.shown.Role)
}

// send does what a browser does with a form.
func (e *entry) send(b *webtest.Browser, values url.Values) webtest.Page {
	if e.form.method == http.MethodPost {
		return b.Post(e.form.action, values)
	}
	path, _, _ := strings.Cut(e.form.action, "?")
	return b.Get(path + "?" + values.Encode())
}

// together are the payloads as they are typed: those that only work at the
// beginning of a text by themselves, of the others a few one behind the other.
func together(all []browsertest.Payload) []browsertest.Payload {
	const few = 5
	var out []browsertest.Payload
	n := few
	for _, p := range all {
		switch {
		case p.Class == "address" || p.Class == "attribute":
			out = append(out, p)
			n = few
		case n < few && out[len(out)-1].Class == p.Class:
			out[len(out)-1].Text += " " + p.Text
			n++
		default:
			out = append(out, p)
			n = 1
		}
	}
	return out
}

// TestInject_FormsGiveBackEveryPayloadAsText sends every payload through every
// text field of every form, each field another payload at a time, and then
// through every field that a browser would not let anyone type into.
func TestInject_FormsGiveBackEveryPayloadAsText(t *testing.T) {
	if n := len(browsertest.Payloads()); n < 200 {
		t.Fatalf("%d payloads, want 200", n)
	}
	payloads := together(browsertest.Payloads())
	for _, e := range entries(t) {
		t.Run(strings.TrimPrefix(e.form.action, "/console/")+" on "+e.shown.Name, func(t *testing.T) {
			t.Parallel()
			_, b := e.visitor(t)
			for n := range payloads {
				values, at := e.form.values(), n
				for _, c := range e.form.controls {
					if c.typed() || n%8 == 0 && c.name != "" {
						values.Set(c.name, payloads[at%len(payloads)].Text)
						at++
					}
				}
				harmless(t, payloads[n].Class, e.send(b, values))
				if t.Failed() {
					return // one is enough to understand
				}
			}
		})
	}
}

// harmless fails the test if an answer could run anything, is a failure, or took
// a payload into its headers.
func harmless(t *testing.T, class string, page webtest.Page) {
	t.Helper()
	if page.Code >= http.StatusInternalServerError {
		t.Errorf("class %s: %d\n%.2000s", class, page.Code, page.Body)
	}
	if err := inert(page.Body); err != nil && strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("class %s: %v", class, err)
	}
	for name, values := range page.Header {
		if text := strings.Join(values, ""); name == "X-Injected" || strings.ContainsAny(text, "\r\n\x00") || name != "Location" && strings.Contains(text, "canary") {
			t.Errorf("class %s: header %s: %q", class, name, text)
		}
	}
	if to := page.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/console") || strings.Contains(to, "//")) {
		t.Errorf("class %s: leads to %q", class, to)
	}
}

// TestInject_WhatIsStoredStaysText puts payloads into one field at a time, the
// rest of the form as it was. A field that takes one as it is gets them all, and
// every page is looked at with them in place.
func TestInject_WhatIsStoredStaysText(t *testing.T) {
	payloads := browsertest.Payloads()
	done := map[string]bool{} // by route and field: a route may have several buttons
	var stored atomic.Int64
	t.Run("forms", func(t *testing.T) {
		for _, e := range entries(t) {
			if e.form.method != http.MethodPost || e.shown.Role == "" || e.shown.Form != nil {
				continue
			}
			var fields []string
			for _, c := range e.form.controls {
				if id := patternOf(http.MethodPost, e.form.action) + " " + c.name; c.typed() && !done[id] {
					done[id], fields = true, append(fields, c.name)
				}
			}
			t.Run(strings.TrimPrefix(e.form.action, "/console/")+" on "+e.shown.Name, func(t *testing.T) {
				t.Parallel()
				for i, name := range fields {
					if e.store(t, name, payloads[i%9:i%9+2]) > 0 && e.store(t, name, payloads) > 0 {
						stored.Add(1)
						t.Logf("%s takes free text", name)
					}
				}
			})
		}
	})
	if stored.Load() == 0 {
		t.Error("nothing was stored, so nothing was tried")
	}
}

// store sends a form with payloads in one field, from a page asked for anew once
// one was stored, and then looks at every page of that world. It tells how many were stored.
func (e *entry) store(t *testing.T, field string, payloads []browsertest.Payload) int {
	t.Helper()
	w, b := e.visitor(t)
	stored, values := 0, e.form.values()
	for _, p := range payloads {
		values.Set(field, p.Text)
		page := e.send(b, values)
		harmless(t, p.Class+" in "+field, page)
		if page.Code == http.StatusSeeOther {
			stored++
			harmless(t, p.Class+" in "+field, b.Get(page.Header.Get("Location")))
			values = e.again(t, b)
		}
		if t.Failed() {
			return 0 // one is enough to understand
		}
	}
	if stored == 0 {
		return 0
	}
	admin := w.As(access.RoleAdmin)
	for _, s := range webtest.Gallery() {
		if s.Form == nil && s.Role != "" {
			harmless(t, field+" of "+e.form.action+" on "+s.Name, admin.Get(s.Path))
		}
	}
	return stored
}

// again is what a browser sends after loading the form's page once more, for a
// form carries the version that it was made for.
func (e *entry) again(t *testing.T, b *webtest.Browser) url.Values {
	t.Helper()
	for _, f := range formsOf(t, b.Get(e.shown.Path).Body, e.shown.Path) {
		for _, by := range f.pressed() {
			if by.action == e.form.action && len(by.controls) == len(e.form.controls) {
				return by.values()
			}
		}
	}
	return e.form.values()
}
