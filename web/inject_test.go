package web_test

import (
	"maps"
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

// batch is a few payloads of one class that are typed one behind the other.
type batch []browsertest.Payload

func (b batch) text() string {
	texts := make([]string, len(b))
	for i, p := range b {
		texts[i] = p.Text
	}
	return strings.Join(texts, " ")
}

// batches are all payloads as they are typed: those that only work at the
// beginning of a text by themselves, of the others a few together.
func batches(all []browsertest.Payload) []batch {
	const few = 5
	var out []batch
	for _, p := range all {
		last := len(out) - 1
		alone := p.Class == "address" || p.Class == "attribute"
		if alone || last < 0 || len(out[last]) == few || out[last][0].Class != p.Class {
			out = append(out, batch{p})
		} else {
			out[last] = append(out[last], p)
		}
	}
	return out
}

// singles are all payloads, each by itself.
func singles(all []browsertest.Payload) []batch {
	out := make([]batch, len(all))
	for i := range all {
		out[i] = all[i : i+1]
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
	payloads := batches(browsertest.Payloads())
	for _, e := range entries(t) {
		t.Run(strings.TrimPrefix(e.form.action, "/console/")+" on "+e.shown.Name, func(t *testing.T) {
			t.Parallel()
			_, b := e.visitor(t)
			for n := range payloads {
				values, at := e.form.values(), n
				for _, c := range e.form.controls {
					if c.typed() || n%8 == 0 && c.name != "" {
						values.Set(c.name, payloads[at%len(payloads)].text())
						at++
					}
				}
				harmless(t, payloads[n][0].Class, e.send(b, values))
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

// TestInject_WhatIsStoredStaysText finds the fields that take a payload as it is,
// gives them all of them, and looks at every page with them in place.
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
				long, short := e.free(t, fields, payloads)
				e.store(t, long, batches(payloads))
				e.store(t, short, singles(payloads))
				stored.Add(int64(len(long) + len(short)))
			})
		}
	})
	if stored.Load() == 0 {
		t.Error("nothing was stored, so nothing was tried")
	}
}

// free are the fields that take one of two payloads, the rest of the form as it
// was: those that take a batch as well, and those that are too short for one.
func (e *entry) free(t *testing.T, fields []string, payloads []browsertest.Payload) (long, short []string) {
	t.Helper()
	for i, field := range fields {
		_, b := e.visitor(t)
		takes := func(p batch) bool {
			values := e.form.values()
			values.Set(field, p.text())
			page := e.send(b, values)
			harmless(t, p[0].Class+" in "+field, page)
			return page.Code == http.StatusSeeOther
		}
		switch two := batch(payloads[i%9 : i%9+2]); {
		case takes(batches(payloads)[i%9]):
			long = append(long, field)
		case takes(two[:1]) || takes(two[1:]):
			short = append(short, field)
		}
	}
	return long, short
}

// store sends every payload in every one of the fields, and then looks at every
// page. A request holds a batch in each field; where that is refused, each payload
// is sent in each field by itself.
func (e *entry) store(t *testing.T, fields []string, payloads []batch) {
	t.Helper()
	if len(fields) == 0 {
		return
	}
	t.Logf("%q take free text", fields)
	w, b := e.visitor(t)
	form := e.form.values() // made for the version that is stored
	send := func(class string, set url.Values) bool {
		values := maps.Clone(form)
		maps.Copy(values, set)
		page := e.send(b, values)
		harmless(t, class, page)
		if page.Code != http.StatusSeeOther {
			return false
		}
		harmless(t, class, b.Get(page.Header.Get("Location")))
		form = e.again(t, b)
		return true
	}
	for n := range payloads {
		if t.Failed() {
			return // one is enough to understand
		}
		all := url.Values{}
		for i, field := range fields {
			all.Set(field, payloads[(n+i)%len(payloads)].text())
		}
		if send(payloads[n][0].Class, all) || len(all) == 1 && len(payloads[n]) == 1 {
			continue
		}
		for i, field := range fields {
			for _, p := range payloads[(n+i)%len(payloads)] {
				send(p.Class+" in "+field, url.Values{field: {p.Text}})
			}
		}
	}
	admin := w.As(access.RoleAdmin)
	for _, s := range webtest.Gallery() {
		if s.Form == nil && s.Role != "" {
			harmless(t, e.form.action+" on "+s.Name, admin.Get(s.Path))
		}
	}
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
